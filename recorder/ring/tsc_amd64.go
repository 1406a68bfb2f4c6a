package ring

// ReadTSC reads the time stamp counter.
func ReadTSC() uint64
