package cli

import (
	"bytes"
	"errors"
	"os"
	"runtime"
	"runtime/pprof"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/internal/fileio"
)

// Profiles are the profiles of xray itself that hidden flags ask for.
type Profiles struct {
	cpu, mem string
	data     *bytes.Buffer // of the CPU profile
}

// AddFlags adds the hidden flags.
func (p *Profiles) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&p.cpu, "cpuprofile", "", "write a CPU profile of xray itself to `FILE`")
	flags.StringVar(&p.mem, "memprofile", "", "write a heap profile of xray itself to `FILE`")
	_ = flags.MarkHidden("cpuprofile")
	_ = flags.MarkHidden("memprofile")
}

// Start starts the requested profiles.
func (p *Profiles) Start() error {
	if p.cpu == "" {
		return nil
	}
	p.data = new(bytes.Buffer)
	return pprof.StartCPUProfile(p.data)
}

// Stop ends the profiles and writes them.
func (p *Profiles) Stop() (err error) {
	if p.data != nil {
		pprof.StopCPUProfile()
		err = fileio.Write(p.cpu, func(file *os.File) error {
			_, err := p.data.WriteTo(file)
			return err
		})
	}
	if p.mem == "" {
		return err
	}
	runtime.GC()
	return errors.Join(err, fileio.Write(p.mem, func(file *os.File) error { return pprof.WriteHeapProfile(file) }))
}
