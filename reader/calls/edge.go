package calls

import "github.com/xray-tools/xray/reader"

// edge handles the beginning or the end of a window of the recording. Calls that are open at its
// end went on for longer. They end there as Truncated.
func (s *shard) edge(th *thread, e reader.Edge) error {
	s.stats.Events-- // it is no record
	s.stats.Custom--
	if err := s.stopAwaiting(th); err != nil {
		return err
	}
	s.entered(th)
	th.left = 0
	if e == reader.WindowBegins {
		th.windowed, th.began = true, th.last
		return nil
	}
	s.stats.Cut += uint64(s.stack.depth)
	return s.popTo(th, 0, Truncated)
}
