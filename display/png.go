package display

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"image/png"
)

// Bounds of pictures, in pixels: what shows one needs four bytes for each.
const (
	MaxSide   = 8000
	MaxPixels = 16 << 20
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// CheckPNG says what is wrong with a picture: it must be a PNG of bearable size, with nothing after its end (PNG, section 5: signature,
// and chunks of length, type, data and CRC, the first of which is IHDR and the last IEND).
func CheckPNG(content []byte) error {
	rest, ok := bytes.CutPrefix(content, []byte(pngSignature))
	if !ok {
		return errors.New("it is no PNG")
	}
	for n, kind := 0, ""; kind != "IEND"; n++ {
		const frame = 12 // length, type and CRC
		if len(rest) < frame {
			return errors.New("the PNG is cut off")
		}
		size := binary.BigEndian.Uint32(rest)
		if int64(size) > int64(len(rest)-frame) {
			return errors.New("the PNG is cut off")
		}
		body := rest[4 : 8+size]
		kind = string(body[:4])
		switch {
		case (n == 0) != (kind == "IHDR"):
			return errors.New("the PNG does not begin with its header, or has a second one")
		case crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(rest[8+size:]):
			return fmt.Errorf("the PNG is damaged: the sum of its part %q is wrong", kind)
		}
		rest = rest[frame+size:]
	}
	if len(rest) > 0 {
		return errors.New("something comes after the end of the PNG")
	}
	c, err := png.DecodeConfig(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("the PNG cannot be read: %w", err)
	}
	if c.Width > MaxSide || c.Height > MaxSide || c.Width*c.Height > MaxPixels {
		return fmt.Errorf("the PNG has %d by %d pixels, more than %d on a side or %d in all", c.Width, c.Height, MaxSide, MaxPixels)
	}
	return nil
}
