// Package debuginfod gets debug files from debuginfod servers, by build id, and
// keeps them in the cache that elfutils, gdb and others share.
//
// A file is cached as BUILDID/debuginfo or BUILDID/executable. An empty file tells
// that no server had it, and is believed for some minutes.
package debuginfod

import (
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

	"github.com/xray-tools/xray/internal/outfile"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Client asks servers for files. It may be used concurrently.
type Client struct {
	Servers []string // base URLs, which are asked one after the other
	Cache   string   // directory
	// Timeout is how long a server may take for the next 100 kB.
	Timeout time.Duration
	// Miss is how long it is believed that no server has a file.
	Miss time.Duration
	// Progress, where it is set, is told how much of a file has come; total is 0
	// where the server does not say. At the end of the file done is total.
	Progress func(url string, done, total int64)

	late sync.Map // servers that took longer than Timeout, which are not asked again
}

const (
	defaultTimeout = 90 * time.Second
	defaultMiss    = 10 * time.Minute
	slice          = 100_000 // bytes that must come within Timeout
)

// FromEnvironment is the client that the variables of debuginfod clients describe:
// DEBUGINFOD_URLS, DEBUGINFOD_TIMEOUT in seconds, DEBUGINFOD_CACHE_PATH,
// XDG_CACHE_HOME and HOME. It is nil where there are no servers.
func FromEnvironment() *Client {
	c := &Client{Servers: strings.Fields(os.Getenv("DEBUGINFOD_URLS")), Timeout: defaultTimeout, Miss: defaultMiss}
	if len(c.Servers) == 0 {
		return nil
	}
	if n, err := strconv.Atoi(os.Getenv("DEBUGINFOD_TIMEOUT")); err == nil && n > 0 {
		c.Timeout = time.Duration(n) * time.Second
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

// errLate is about servers that take too long.
var errLate = errors.New("the server timed out")

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Fetch returns the path of a file of the build in the cache, which it gets if it
// is not there; "" when no server has it. It fits [debuginfo.Options].
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
			failed = errors.Join(failed, fmt.Errorf("debuginfod: %s: skipped, because %w before", server, errLate))
			continue
		}
		url := strings.TrimSuffix(server, "/") + "/buildid/" + buildID + "/" + string(kind)
		err := c.get(url, path)
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
	// That nobody has it is remembered; that this cannot be is no reason to fail.
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
		_ = os.Remove(path)
		_ = os.WriteFile(path, nil, 0o400)
	}
	return "", nil
}

// get downloads url to path. The error is fs.ErrNotExist where the server does not
// have it.
func (c *Client) get(url, path string) (err error) {
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
	response, err := http.DefaultClient.Do(request)
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
	// The name of a miss that got old may be in the way.
	return outfile.Replace(path, outfile.Mode(0o600), func(f *os.File) error { return c.save(response, url, f, slow) })
}

// save writes what a server answers to a file.
func (c *Client) save(response *http.Response, url string, f io.Writer, slow *time.Timer) error {
	body := &watched{r: response.Body, seen: func(n int64) {
		slow.Reset(c.Timeout)
		if c.Progress != nil {
			c.Progress(url, n, max(response.ContentLength, 0))
		}
	}}
	n, err := io.Copy(f, body)
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

// watched tells whenever another slice was read.
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
