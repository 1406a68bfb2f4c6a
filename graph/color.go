package graph

import (
	"fmt"
	"math"
)

// rgb is a color with components from 0 to 255.
type rgb struct{ r, g, b float64 }

// hsv is a color by hue (0 to 6, one per sextant), saturation and value (0 to 1).
type hsv struct{ h, s, v float64 }

// The scales are ColorBrewer's: 9-class OrRd for amounts, 11-class PiYG for
// changes.
var (
	orRd = []rgb{
		{255, 247, 236}, {254, 232, 200}, {253, 212, 158}, {253, 187, 132}, {252, 141, 89},
		{239, 101, 72}, {215, 48, 31}, {179, 0, 0}, {127, 0, 0},
	}
	piYG = []rgb{
		{142, 1, 82}, {197, 27, 125}, {222, 119, 174}, {241, 182, 218}, {253, 224, 239}, {247, 247, 247},
		{230, 245, 208}, {184, 225, 134}, {127, 188, 65}, {77, 146, 33}, {39, 100, 25},
	}
)

// amountColor returns the color of v if most is the largest amount. The square root spreads small
// amounts, which are the most frequent.
func amountColor(v, most float64) rgb {
	if most <= 0 {
		return orRd[0]
	}
	return pick(orRd, math.Sqrt(v/most))
}

// changeColor returns the color of a relative change: pink for less, green for more.
func changeColor(change float64) rgb { return pick(piYG, (change+1)/2) }

// pick returns the color at t, from 0 to 1, of a scale.
func pick(scale []rgb, t float64) rgb {
	t *= float64(len(scale) - 1)
	if !(t > 0) {
		return scale[0]
	}
	if t >= float64(len(scale)-1) {
		return scale[len(scale)-1]
	}
	i := int(t)
	return blend(scale[i], scale[i+1], t-float64(i))
}

// blend mixes two colors by hue, saturation and value. The hue takes the shorter way.
func blend(from, to rgb, t float64) rgb {
	a, b := toHSV(from), toHSV(to)
	switch {
	case b.h-a.h > 3:
		a.h += 6
	case a.h-b.h > 3:
		b.h += 6
	}
	return toRGB(hsv{a.h + (b.h-a.h)*t, a.s + (b.s-a.s)*t, a.v + (b.v-a.v)*t})
}

func toHSV(c rgb) hsv {
	r, g, b := c.r/255, c.g/255, c.b/255
	v := max(r, g, b)
	chroma := v - min(r, g, b)
	if chroma == 0 {
		return hsv{0, 0, v}
	}
	var h float64
	switch v {
	case r:
		h = (g - b) / chroma
	case g:
		h = (b-r)/chroma + 2
	default:
		h = (r-g)/chroma + 4
	}
	if h < 0 {
		h += 6
	}
	return hsv{h, chroma / v, v}
}

func toRGB(c hsv) rgb {
	h := math.Mod(c.h, 6)
	chroma := c.v * c.s
	low := c.v - chroma
	mid := low + chroma*(1-math.Abs(math.Mod(h, 2)-1))
	high := low + chroma
	var r, g, b float64
	switch int(h) {
	case 0:
		r, g, b = high, mid, low
	case 1:
		r, g, b = mid, high, low
	case 2:
		r, g, b = low, high, mid
	case 3:
		r, g, b = low, mid, high
	case 4:
		r, g, b = mid, low, high
	default:
		r, g, b = high, low, mid
	}
	return rgb{math.Floor(255*r + 0.5), math.Floor(255*g + 0.5), math.Floor(255*b + 0.5)}
}

// String returns the color as DOT writes it.
func (c rgb) String() string {
	return fmt.Sprintf("#%02X%02X%02X", uint8(c.r), uint8(c.g), uint8(c.b))
}

// ink returns black or white, whichever is more readable on the color.
func (c rgb) ink() string {
	if 0.299*c.r+0.587*c.g+0.114*c.b < 140 {
		return "#FFFFFF"
	}
	return "#000000"
}
