package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// FilesBelow replaces folders by all files below them, in the order of their paths. It skips
// names that begin with a dot or an underscore, as data lakes do.
func FilesBelow(paths []string) (files []string, err error) {
	for _, path := range paths {
		st, err := os.Stat(path)
		if err != nil || !st.IsDir() {
			files = append(files, path) // opening it reports the error
			continue
		}
		n := len(files)
		err = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error {
			switch hidden := at != path && strings.Trim(d.Name()[:1], "._") == ""; {
			case err != nil:
				return err
			case hidden && d.IsDir():
				return fs.SkipDir
			case !hidden && d.Type().IsRegular():
				files = append(files, at)
			}
			return nil
		})
		if err == nil && len(files) == n {
			err = errors.New("the directory has no files")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return files, nil
}
