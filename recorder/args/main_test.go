package args

import (
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

func TestMain(m *testing.M) { elftest.Main(m) }
