//go:build linux && amd64

package real

import "regexp"

// programs are what is recorded.
var programs = []program{
	{
		name:   "lua",
		source: "lua5.4",
		// What Debian's configure script writes, and a compilation without libtool.
		script: `cd src
			echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' > lua5.4-deb-multiarch.h
			ls l*.c | grep -v luac.c | xargs -n 1 -P 2 $CC $CFLAGS -DLUA_USE_LINUX "-Dluai_makeseed(L)=1" -c
			$CC $CFLAGS -Wl,-E -o ../lua l*.o -lm -ldl`,
		loads: []load{
			{
				name:   "script",
				quick:  true,
				script: `"$@" "$SRC/lua" "$DATA/load.lua" 1`,
				exact:  []string{"luaV_execute", "luaD_throw", "luaB_pcall", "str_rep", "luaC_step", "auxresume"},
			},
			{
				name:   "cost",
				cost:   true,
				script: `"$@" "$SRC/lua" "$DATA/load.lua" 10`,
			},
			{
				name:   "lines",
				script: `exec "$@" "$SRC/lua" "$DATA/serve.lua"`,
				drive:  driveLines(2000, "str_rep"),
			},
		},
	},
	{
		name:   "sqlite",
		source: "sqlite3",
		needs:  []string{"tclsh"},
		files:  []string{"/usr/include/tcl8.6/tcl.h", "/usr/include/zlib.h"},
		script: `./configure -q --with-tcl=/usr/lib/tcl8.6 --disable-readline
			make -s sqlite3.c
			make -s -j2 speedtest1 sqlite3 testfixture`,
		loads: []load{
			{
				name:   "speedtest1",
				script: `"$@" "$SRC/speedtest1" --size 2 --verify test.db`,
				varies: regexp.MustCompile(`\d+\.\d{3}s`),
				exact:  []string{"sqlite3Step", "sqlite3BtreeInsert", "pcache1Fetch", "pthreadMutexEnter"},
			},
			{
				name:   "cost",
				cost:   true,
				script: `"$@" "$SRC/speedtest1" --size 10 --memdb`,
			},
		},
	},
}
