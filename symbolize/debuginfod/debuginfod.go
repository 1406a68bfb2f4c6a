// Package debuginfod downloads debug files from debuginfod servers by build ID. It uses the
// same cache as elfutils and gdb.
//
// A file is cached as BUILDID/debuginfo or BUILDID/executable. An empty file means that no
// server had it. It is valid for some minutes.
package debuginfod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/remote"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Client downloads files from servers. It is safe for concurrent use.
type Client struct {
	Servers []string // base URLs, in order
	Cache   string   // directory
	// Timeout limits the time for each 100 kB of a download.
	Timeout time.Duration
	// Most is the maximum size of a file in bytes. No file may take more than half of the free space.
	Most int64
	// Miss is how long an empty file in the cache is valid.
	Miss time.Duration
	// Progress is called with the number of downloaded bytes. total is 0 if the server does not
	// send the size. At the end of the file, done equals total. Progress may be nil.
	Progress func(url string, done, total int64)

	late sync.Map // servers that timed out, to skip them
}

const (
	defaultTimeout = 90 * time.Second
	defaultMiss    = 10 * time.Minute
	defaultMost    = 8 << 30
	slice          = 100_000 // bytes that must arrive within Client.Timeout
)

// FromEnvironment returns the client that the environment configures with DEBUGINFOD_URLS,
// DEBUGINFOD_TIMEOUT in seconds, DEBUGINFOD_MAXSIZE in bytes, DEBUGINFOD_CACHE_PATH, XDG_CACHE_HOME and HOME. It returns nil
// if there are no servers.
func FromEnvironment() *Client {
	c := &Client{Servers: strings.Fields(os.Getenv("DEBUGINFOD_URLS")), Timeout: defaultTimeout, Most: defaultMost, Miss: defaultMiss}
	if len(c.Servers) == 0 {
		return nil
	}
	if n, err := strconv.Atoi(os.Getenv("DEBUGINFOD_TIMEOUT")); err == nil && n > 0 {
		c.Timeout = time.Duration(n) * time.Second
	}
	if n, err := strconv.ParseInt(os.Getenv("DEBUGINFOD_MAXSIZE"), 10, 64); err == nil && n > 0 {
		c.Most = n
	}
	home := os.Getenv("HOME")
	legacy := filepath.Join(home, ".debuginfod_client_cache")
	switch xdg := os.Getenv("XDG_CACHE_HOME"); {
	case os.Getenv("DEBUGINFOD_CACHE_PATH") != "":
		c.Cache = os.Getenv("DEBUGINFOD_CACHE_PATH")
	case exists(legacy):
		c.Cache = legacy
	case xdg != "":
		c.Cache = filepath.Join(xdg, "debuginfod_client")
	default:
		c.Cache = filepath.Join(home, ".cache", "debuginfod_client")
	}
	if b, err := os.ReadFile(filepath.Join(c.Cache, "cache_miss_s")); err == nil {
		if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n >= 0 {
			c.Miss = time.Duration(n) * time.Second
		}
	}
	return c
}

// errLate is the error for slow servers.
var errLate = errors.New("the server timed out")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Fetch returns the path of a file of a build in the cache. It downloads the file if necessary.
// It returns "" if no server has the file. Use it as [debuginfo.Options].Fetch.
func (c *Client) Fetch(buildID string, kind debuginfo.FileKind) (string, error) {
	if strings.Trim(buildID, "0123456789abcdef") != "" || buildID == "" {
		return "", fmt.Errorf("not a build ID: %q", buildID)
	}
	path := filepath.Join(c.Cache, buildID, string(kind))
	if info, err := os.Stat(path); err == nil {
		switch {
		case info.Size() > 0:
			return path, nil
		case time.Since(info.ModTime()) < c.Miss:
			return "", nil
		}
	}
	var failed error
	for _, server := range c.Servers {
		if _, late := c.late.Load(server); late {
			failed = errors.Join(failed, fmt.Errorf("debuginfod: %s: skipped because %w earlier", server, errLate))
			continue
		}
		url := strings.TrimSuffix(server, "/") + "/buildid/" + buildID + "/" + string(kind)
		err := c.get(url, path, buildID)
		if err == nil {
			return path, nil
		}
		if errors.Is(err, errLate) {
			c.late.Store(server, true)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			failed = errors.Join(failed, fmt.Errorf("debuginfod: %w", err))
		}
	}
	if failed != nil {
		return "", failed
	}
	// Remember the miss. If this fails, the next call asks again.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		_ = fileio.Replace(path, fileio.Mode(0o400), func(*os.File) error { return nil })
	}
	return "", nil
}

// get downloads url to path. It returns fs.ErrNotExist if the server does not have the file.
func (c *Client) get(url, path, buildID string) (err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	slow := time.AfterFunc(c.Timeout, func() {
		cancel(fmt.Errorf("%w: less than %d bytes in %v. To wait longer, set DEBUGINFOD_TIMEOUT to a number of seconds", errLate, slice, c.Timeout))
	})
	defer slow.Stop()
	defer func() {
		if err != nil && context.Cause(ctx) != nil && !errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s: %w", url, context.Cause(ctx))
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "xray")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusNotFound:
		return fs.ErrNotExist
	case response.StatusCode != http.StatusOK:
		return fmt.Errorf("%s: the server answered %s", url, response.Status)
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// An expired miss has the same name.
	return fileio.Replace(path, fileio.Mode(0o600), func(f *os.File) error {
		if err := c.save(response, url, f, slow); err != nil {
			return err
		}
		// Others that use the cache trust its files.
		return checkBuildID(f.Name(), url, buildID)
	})
}

// client follows redirects only on the same host: a server must not direct a request to a machine that
// only this one reaches.
var client = http.Client{CheckRedirect: func(to *http.Request, before []*http.Request) error {
	switch {
	case len(before) > 5:
		return errors.New("more than 5 redirects")
	case !remote.SameServer(before[0].URL, to.URL):
		return fmt.Errorf("the server redirects to %s, which xray does not follow: if you trust it, add that server to DEBUGINFOD_URLS", remote.Name(to.URL.String()))
	}
	return nil
}}

func checkBuildID(path, url, want string) error {
	o, err := debuginfo.OpenELF(path)
	if err != nil {
		return fmt.Errorf("%s: the server sent a file that is not a debug file", url)
	}
	defer o.Close()
	if got := o.BuildID(); got != want {
		return fmt.Errorf("%s: the server sent a file with build ID %s", url, cmp.Or(got, "none"))
	}
	return nil
}

// save writes the response of a server to a file.
func (c *Client) save(response *http.Response, url string, f *os.File, slow *time.Timer) error {
	most, remedy := c.Most, "to allow more, set DEBUGINFOD_MAXSIZE to a number of bytes"
	if free, ok := fileio.FreeSpace(f); ok && free/2 < most {
		most, remedy = free/2, fmt.Sprintf("which is half of the free space in %s", c.Cache)
	}
	if response.ContentLength > most {
		return fmt.Errorf("%s: the file has %d bytes, more than %d: %s", url, response.ContentLength, most, remedy)
	}
	body := &watched{r: response.Body, seen: func(n int64) {
		slow.Reset(c.Timeout)
		if c.Progress != nil {
			c.Progress(url, n, max(response.ContentLength, 0))
		}
	}}
	n, err := io.Copy(f, io.LimitReader(body, most+1))
	if n > most {
		err = fmt.Errorf("more than %d bytes: %s", most, remedy)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", url, err)
	}
	if c.Progress != nil {
		c.Progress(url, n, n)
	}
	if err == nil && n == 0 {
		err = fmt.Errorf("%s: the server sent an empty file", url)
	}
	return err
}

// watched calls seen after each slice.
type watched struct {
	r        io.Reader
	n, since int64
	seen     func(n int64)
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	w.n += int64(n)
	if w.since += int64(n); w.since >= slice {
		w.since = 0
		w.seen(w.n)
	}
	return n, err
}
