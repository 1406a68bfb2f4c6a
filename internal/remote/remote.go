// Package remote reads files from web servers and object stores, as streams.
//
// A stream is the whole of one version of a file, or an error. If the connection breaks or
// stalls, the rest comes over a new one, provided that the server can prove that the file is
// still the same.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Options of [Open]. The zero value is usable.
type Options struct {
	// Stall is how long a server may send nothing. 0 means 1 minute.
	Stall time.Duration
	// Pause is the time before the second attempt to continue. It doubles with each attempt that
	// gets next to nothing. 0 means 0.5 s.
	Pause time.Duration
}

const (
	maxAttempts  = 6        // in a row that get next to nothing
	enough       = 64 << 10 // bytes that an attempt must get
	maxRedirects = 5
)

// Is reports whether a path is a URL that Open takes.
func Is(path string) bool {
	scheme, _, ok := strings.Cut(path, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// Name returns a URL without its secrets: the user, the query with its signature, and the
// fragment. Other paths stay as they are.
func Name(path string) string {
	if !Is(path) {
		return path
	}
	u, err := url.Parse(path)
	if err != nil {
		path, _, _ = strings.Cut(path, "?")
		path, _, _ = strings.Cut(path, "#")
		scheme, rest, _ := strings.Cut(path, "://")
		host, file, _ := strings.Cut(rest, "/")
		return scheme + "://" + host[strings.LastIndexByte(host, '@')+1:] + "/" + file
	}
	return name(u)
}

func name(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return shown.String()
}

// Stream is a file that is being fetched. Read is for one goroutine. Errors do not contain the
// query of the URL.
type Stream struct {
	ctx    context.Context
	opts   Options
	client *http.Client
	url    *url.URL // after redirects
	body   io.ReadCloser
	cancel context.CancelFunc // of the request of body
	watch  *time.Timer        // cancels it when nothing comes
	// What identifies the version of the file.
	size           int64 // -1 if the server does not say
	etag, modified string
	offset         atomic.Int64
	fruitless      int   // attempts since enough bytes came
	got            int64 // bytes of the current connection
	err            error
}

// Open begins to fetch a file. It follows a redirect only on the same host, and never from https
// to http. The context ends the stream.
func Open(ctx context.Context, path string, opts Options) (*Stream, error) {
	if opts.Stall == 0 {
		opts.Stall = time.Minute
	}
	if opts.Pause == 0 {
		opts.Pause = time.Second / 2
	}
	u, err := url.Parse(path)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s: not a valid URL", Name(path)) // the parser's error has all of it
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DisableCompression = true // sizes and ranges are those of the file as stored
	s := &Stream{ctx: ctx, opts: opts, url: u, client: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for range maxRedirects + 1 {
		resp, err := s.request(0)
		if err != nil {
			return nil, s.named(err)
		}
		if target := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && target != "" {
			s.drop()
			if err := s.redirect(target); err != nil {
				return nil, s.named(err)
			}
			continue
		}
		if resp.StatusCode != http.StatusOK {
			s.drop()
			return nil, s.named(statusError(resp))
		}
		s.size, s.etag, s.modified = resp.ContentLength, resp.Header.Get("ETag"), resp.Header.Get("Last-Modified")
		return s, nil
	}
	return nil, s.named(fmt.Errorf("more than %d redirects", maxRedirects))
}

// redirect follows a redirect to another URL if that is safe: a server must not direct the
// request to a machine that only this one reaches, or to a connection that others can read.
func (s *Stream) redirect(target string) error {
	to, err := s.url.Parse(target)
	if err != nil {
		return errors.New("the server redirects to something that is not a URL")
	}
	if !SameServer(s.url, to) {
		return fmt.Errorf("the server redirects to %s, which xray does not follow: if you trust it, pass that URL", name(to))
	}
	if to.User == nil {
		to.User = s.url.User
	}
	s.url = to
	return nil
}

// SameServer reports whether a redirect leads to the same host, and not from https to http.
func SameServer(from, to *url.URL) bool {
	upgrade := from.Scheme == "http" && to.Scheme == "https" && port(from) == "80" && port(to) == "443"
	return strings.EqualFold(to.Hostname(), from.Hostname()) && (upgrade || to.Scheme == from.Scheme && port(to) == port(from))
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

func statusError(resp *http.Response) error {
	err := fmt.Errorf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized {
		err = fmt.Errorf("%w: has the URL expired?", err)
	}
	return err
}

// named says which file an error is about.
func (s *Stream) named(err error) error {
	return fmt.Errorf("%s: %w", name(s.url), err)
}

// request asks for the file from an offset on.
func (s *Stream) request(offset int64) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	s.cancel = func() { cancel(nil) }
	s.watch = time.AfterFunc(s.opts.Stall, func() { cancel(errStall) })
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url.String(), nil)
	if err != nil {
		return nil, errors.New("not a valid URL")
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "xray")
	if offset > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
		req.Header.Set("If-Range", s.validator())
	}
	resp, err := s.client.Do(req)
	if err != nil {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err // without the URL
		}
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		s.drop()
		return nil, err
	}
	s.watch.Stop()
	s.body = &watched{resp.Body, ctx, s.watch, s.opts.Stall}
	return resp, nil
}

var errStall = errors.New("the server sends nothing")

// watched is a body that is interrupted if nothing comes, and then says so.
type watched struct {
	io.ReadCloser
	ctx   context.Context
	watch *time.Timer
	stall time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	w.watch.Reset(w.stall)
	n, err := w.ReadCloser.Read(p)
	w.watch.Stop()
	if cause := context.Cause(w.ctx); err != nil && err != io.EOF && cause != nil {
		err = cause
	}
	return n, err
}

// drop ends the current request.
func (s *Stream) drop() {
	s.watch.Stop()
	if s.body != nil {
		s.body.Close()
		s.body = nil
	}
	s.cancel()
}

// validator returns the value that a server compares before it continues a file, or "" if nothing
// can prove that the file is the same.
func (s *Stream) validator() string {
	if s.etag != "" && !strings.HasPrefix(s.etag, "W/") {
		return s.etag
	}
	return s.modified
}

// Resumable reports whether the stream can continue if its connection breaks, provided that the
// server still has the file.
func (s *Stream) Resumable() bool { return s.size >= 0 && s.validator() != "" }

// Progress returns how many bytes were fetched, and the size of the file, or -1 if unknown. It
// may be called concurrently.
func (s *Stream) Progress() (done, size int64) { return s.offset.Load(), s.size }

// Close ends the stream.
func (s *Stream) Close() error {
	if s.body != nil {
		s.drop()
	}
	s.client.CloseIdleConnections()
	return nil
}

// Err returns the error of the stream, other than io.EOF. It stays an error even if the consumer
// treated it as the end of the file.
func (s *Stream) Err() error { return s.err }

// Read implements io.Reader.
func (s *Stream) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	for {
		n, err := s.read(p)
		if n > 0 {
			return n, nil // an error comes again
		}
		if err == io.EOF {
			return 0, io.EOF
		}
		if err == nil {
			continue
		}
		if err = s.resume(err); err != nil {
			s.err = s.named(err)
			return 0, s.err
		}
	}
}

// read reads from the current connection.
func (s *Stream) read(p []byte) (int, error) {
	if s.body == nil {
		return 0, io.ErrUnexpectedEOF
	}
	if left := s.size - s.offset.Load(); s.size >= 0 && left < int64(len(p)) {
		if left == 0 {
			return 0, io.EOF
		}
		p = p[:left]
	}
	n, err := s.body.Read(p)
	if s.got += int64(n); s.got >= enough {
		s.fruitless = 0
	}
	at := s.offset.Add(int64(n))
	if err == io.EOF && at < s.size {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// finalError is an error that makes another attempt useless.
type finalError struct{ error }

// resume continues the file over a new connection after err.
func (s *Stream) resume(err error) error {
	if s.body != nil {
		s.drop()
	}
	for {
		switch final := (finalError{}); {
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case errors.As(err, &final):
			return final.error
		case s.size < 0 || s.offset.Load() == 0 && s.validator() == "":
			return fmt.Errorf("%w after %d bytes, and the server cannot continue the file", err, s.offset.Load())
		case s.validator() == "":
			return fmt.Errorf("%w after %d bytes, and the server does not say whether the file is still the same (ETag, Last-Modified)", err, s.offset.Load())
		case s.fruitless >= maxAttempts:
			return fmt.Errorf("%w after %d of %d bytes, and %d attempts to continue", err, s.offset.Load(), s.size, maxAttempts)
		}
		if s.fruitless > 0 {
			if err := sleep(s.ctx, s.opts.Pause<<(s.fruitless-1)); err != nil {
				return err
			}
		}
		s.fruitless++
		s.got = 0
		if err = s.again(); err == nil {
			return nil
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// again asks for the rest of the file.
func (s *Stream) again() error {
	offset := s.offset.Load()
	resp, err := s.request(offset)
	if err != nil {
		return err
	}
	err = s.continues(resp, offset)
	if err != nil {
		s.drop()
	}
	return err
}

// continues checks that a response is the rest of the same file.
func (s *Stream) continues(resp *http.Response, offset int64) error {
	h := &resp.Header
	changed := h.Get("ETag") != s.etag || h.Get("Last-Modified") != s.modified
	switch resp.StatusCode {
	case http.StatusOK:
		if changed || resp.ContentLength != s.size {
			return errChanged
		}
		// The server has no ranges.
		if _, err := io.CopyN(io.Discard, s.body, offset); err != nil {
			return err
		}
		return nil
	case http.StatusPartialContent:
		if changed {
			return errChanged
		}
		if want := fmt.Sprintf("bytes %d-%d/%d", offset, s.size-1, s.size); h.Get("Content-Range") != want {
			return finalError{fmt.Errorf("the server continues with %q instead of %q", h.Get("Content-Range"), want)}
		}
		return nil
	case http.StatusRequestTimeout, http.StatusTooManyRequests:
		return statusError(resp)
	}
	if resp.StatusCode >= 500 {
		return statusError(resp)
	}
	return finalError{statusError(resp)}
}

var errChanged = finalError{errors.New("the file changed while it was fetched")}
