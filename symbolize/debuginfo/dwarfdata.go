package debuginfo

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// cursor reads DWARF data. A read beyond the end sets bad. From then on, all reads return zero.
type cursor struct {
	b     []byte
	order binary.ByteOrder
	bad   bool
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	b := c.b[:n]
	c.b = c.b[n:]
	return b
}

func (c *cursor) uint8() byte {
	b := c.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (c *cursor) uint(size int) uint64 {
	b := c.take(uint64(size))
	if b == nil {
		return 0
	}
	return readUint(c.order, b, size)
}

// offset reads an offset into a section: 4 bytes, or 8 in 64-bit DWARF.
func (c *cursor) offset(wide bool) uint64 {
	if wide {
		return c.uint(8)
	}
	return c.uint(4)
}

// uleb reads an unsigned LEB128 number.
func (c *cursor) uleb() uint64 {
	if len(c.b) > 0 && c.b[0] < 0x80 { // nearly all
		v := uint64(c.b[0])
		c.b = c.b[1:]
		return v
	}
	var v uint64
	for shift := uint(0); ; shift += 7 {
		b := c.take(1)
		if b == nil {
			return 0
		}
		v |= uint64(b[0]&0x7F) << shift
		if b[0] < 0x80 {
			return v
		}
	}
}

// sleb reads a signed LEB128 number.
func (c *cursor) sleb() int64 {
	var v int64
	for shift := uint(0); ; {
		b := c.take(1)
		if b == nil {
			return 0
		}
		v |= int64(b[0]&0x7F) << shift
		shift += 7
		if b[0] < 0x80 {
			if b[0]&0x40 != 0 && shift < 64 {
				v |= -1 << shift
			}
			return v
		}
	}
}

// cstring reads up to a zero byte.
func (c *cursor) cstring() []byte {
	i := bytes.IndexByte(c.b, 0)
	if i < 0 {
		c.bad, c.b = true, nil
		return nil
	}
	b := c.b[:i]
	c.b = c.b[i+1:]
	return b
}

// Forms of attribute values, from the DWARF 5 standard, section 7.5.6, and extensions of GNU
// and LLVM.
const (
	formAddr          = 0x01
	formBlock2        = 0x03
	formBlock4        = 0x04
	formData2         = 0x05
	formData4         = 0x06
	formData8         = 0x07
	formString        = 0x08
	formBlock         = 0x09
	formBlock1        = 0x0a
	formData1         = 0x0b
	formFlag          = 0x0c
	formSdata         = 0x0d
	formStrp          = 0x0e
	formUdata         = 0x0f
	formRefAddr       = 0x10
	formRef1          = 0x11
	formRef2          = 0x12
	formRef4          = 0x13
	formRef8          = 0x14
	formRefUdata      = 0x15
	formIndirect      = 0x16
	formSecOffset     = 0x17
	formExprloc       = 0x18
	formFlagPresent   = 0x19
	formStrx          = 0x1a
	formAddrx         = 0x1b
	formRefSup4       = 0x1c
	formStrpSup       = 0x1d
	formData16        = 0x1e
	formLineStrp      = 0x1f
	formRefSig8       = 0x20
	formImplicitConst = 0x21
	formLoclistx      = 0x22
	formRnglistx      = 0x23
	formRefSup8       = 0x24
	formStrx1         = 0x25
	formStrx2         = 0x26
	formStrx3         = 0x27
	formStrx4         = 0x28
	formAddrx1        = 0x29
	formAddrx2        = 0x2a
	formAddrx3        = 0x2b
	formAddrx4        = 0x2c
	formGNUAddrIndex  = 0x1f01
	formGNUStrIndex   = 0x1f02
	formGNURefAlt     = 0x1f20
	formGNUStrpAlt    = 0x1f21
	formUnknown       = 0xffff // stands for all larger forms
)

// value is an attribute value. Strings in other sections are offsets. inline has strings and blocks
// that are in the entry itself.
type value struct {
	form   uint64
	n      uint64
	inline []byte
}

// formSize returns the size of values of a form in units of a kind; -1 if it varies.
func formSize(form uint64, k unitKind) int {
	switch form {
	case formFlagPresent, formImplicitConst:
		return 0
	case formData1, formFlag, formRef1, formStrx1, formAddrx1:
		return 1
	case formData2, formRef2, formStrx2, formAddrx2:
		return 2
	case formStrx3, formAddrx3:
		return 3
	case formData4, formRef4, formStrx4, formAddrx4, formRefSup4:
		return 4
	case formData8, formRef8, formRefSig8, formRefSup8:
		return 8
	case formData16:
		return 16
	case formStrp, formLineStrp, formSecOffset, formRefAddr, formStrpSup, formGNURefAlt, formGNUStrpAlt:
		return int(k.offsetSize())
	case formAddr:
		if k.addressSize == 2 || k.addressSize == 4 || k.addressSize == 8 {
			return k.addressSize
		}
	}
	return -1
}

// form reads a value of a form. After an unknown form, the rest is unreadable.
func (c *cursor) form(form uint64, k unitKind) value {
	v := value{form: form}
	switch size := formSize(form, k); size {
	case 0:
		return v
	case 1, 2, 4, 8:
		v.n = c.uint(size)
		return v
	case 3:
		if b := c.take(3); b != nil && c.order == binary.BigEndian {
			v.n = uint64(b[0])<<16 | uint64(b[1])<<8 | uint64(b[2])
		} else if b != nil {
			v.n = uint64(b[2])<<16 | uint64(b[1])<<8 | uint64(b[0])
		}
		return v
	case 16:
		v.inline = c.take(16)
		return v
	}
	switch form {
	case formUdata, formRefUdata, formStrx, formAddrx, formLoclistx, formRnglistx, formGNUAddrIndex, formGNUStrIndex:
		v.n = c.uleb()
	case formSdata:
		v.n = uint64(c.sleb())
	case formString:
		v.inline = c.cstring()
	case formBlock, formExprloc:
		v.inline = c.take(c.uleb())
	case formBlock1:
		v.inline = c.take(c.uint(1))
	case formBlock2:
		v.inline = c.take(c.uint(2))
	case formBlock4:
		v.inline = c.take(c.uint(4))
	case formIndirect:
		if form := c.uleb(); form != formIndirect && form != formImplicitConst {
			return c.form(form, k)
		}
		c.bad = true
	default:
		c.bad = true
	}
	return v
}

// text resolves a string value. It does not resolve strings by index, which belong to split
// units.
func (v value) text(strs lineStrings) string {
	switch v.form {
	case formString:
		return string(v.inline)
	case formLineStrp:
		return strs.lineString(v.n)
	case formStrp:
		return strs.debugString(v.n)
	}
	return ""
}

// joinPath joins dir and name unless name is absolute. It keeps "..", whose meaning depends on
// symbolic links of the machine that compiled the file.
func joinPath(dir, name string) string {
	name = strings.TrimPrefix(name, "./")
	if dir == "" || isAbsolute(name) {
		return name
	}
	if name == "" || name == "." {
		return dir
	}
	return strings.TrimSuffix(dir, "/") + "/" + name
}

// isAbsolute also accepts absolute paths of Windows, for cross compilers.
func isAbsolute(p string) bool {
	return strings.HasPrefix(p, "/") || strings.HasPrefix(p, `\`) || len(p) > 2 && p[1] == ':' && (p[2] == '\\' || p[2] == '/')
}
