// Package yamltext reads untrusted YAML into a tree, in bounded time and memory, and writes strings
// as scalars in the style of LLVM's YAML writer.
//
// When the YAML library decodes into Go types, it takes up to 2,000 bytes for a byte of text,
// and time that grows with the square of what some texts repeat. A tree of nodes is cheap
// enough if its size is bounded beforehand. [Pairs] and [Items] walk it.
package yamltext

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v4"
)

const (
	// MaxText is the largest text in bytes that [Load] reads.
	MaxText = 8 << 20
	// maxTokens bounds the characters that may separate one node from the next: a
	// node takes up to 2,000 bytes. A sled or a record of a trace has some 20.
	maxTokens = 100_000
	// maxDirectives bounds what every tag is compared with.
	maxDirectives = 16
	// maxAliases bounds the chain from an alias to its target.
	maxAliases = 16
)

// ErrLarge means that a text is larger or has more nodes than [Load] reads.
var ErrLarge = errors.New("too much YAML in a form that llvm-xray does not write")

// Load returns the root of the first document; nil if there is none.
func Load(text []byte) (*yaml.Node, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrLarge, len(text), MaxText)
	}
	tokens, directives := 0, 0
	for i, c := range text {
		switch c {
		case '\n', ',', ':', '[', '{', '?', '-':
			tokens++
		case '%':
			if i == 0 || text[i-1] == '\n' || text[i-1] == '\r' {
				directives++
			}
		}
	}
	if tokens > maxTokens {
		return nil, fmt.Errorf("%w: more than %d lines, keys and values", ErrLarge, maxTokens)
	}
	if directives > maxDirectives {
		return nil, fmt.Errorf("more than %d YAML directives", maxDirectives)
	}
	var document yaml.Node
	if err := yaml.Load(text, &document, yaml.WithSingleDocument()); err != nil {
		return nil, err
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) != 1 {
		return nil, nil
	}
	return target(document.Content[0])
}

// target follows aliases.
func target(n *yaml.Node) (*yaml.Node, error) {
	for range maxAliases {
		if n == nil || n.Kind != yaml.AliasNode {
			return n, nil
		}
		n = n.Alias
	}
	return nil, errors.New("too many aliases of aliases")
}

// Pairs calls f for the keys of a mapping and their values, in order. It returns an error if n
// is not a mapping, if a key is not a scalar or occurs twice, or if there are more than most
// keys.
func Pairs(n *yaml.Node, most int, f func(key, value *yaml.Node) error) error {
	if n == nil || n.Kind != yaml.MappingNode {
		return fmt.Errorf("%s is not a mapping", Describe(n))
	}
	if len(n.Content)/2 > most {
		return fmt.Errorf("line %d: %d keys, more than %d", n.Line, len(n.Content)/2, most)
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, err := target(n.Content[i])
		if err != nil {
			return err
		}
		value, err := target(n.Content[i+1])
		if err != nil {
			return err
		}
		switch {
		case key.Kind != yaml.ScalarNode:
			return fmt.Errorf("%s is not a key", Describe(key))
		case seen[key.Value]:
			return fmt.Errorf("line %d: key %q occurs twice", key.Line, short(key.Value))
		}
		seen[key.Value] = true
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Items calls f for the items of a sequence, in order. It returns an error if n is not a
// sequence.
func Items(n *yaml.Node, f func(i int, item *yaml.Node) error) error {
	if n == nil || n.Kind != yaml.SequenceNode {
		return fmt.Errorf("%s is not a list", Describe(n))
	}
	for i, item := range n.Content {
		item, err := target(item)
		if err != nil {
			return err
		}
		if err := f(i, item); err != nil {
			return err
		}
	}
	return nil
}

// Describe says what a node is, and where, for messages.
func Describe(n *yaml.Node) string {
	if n == nil {
		return "nothing"
	}
	at := fmt.Sprintf("line %d: ", n.Line)
	switch n.Kind {
	case yaml.MappingNode:
		return at + "a mapping"
	case yaml.SequenceNode:
		return at + "a list"
	}
	return at + "`" + short(n.Value) + "`"
}

func short(s string) string {
	const most = 40
	if b := []byte(s); len(b) > most {
		return string(bytes.ToValidUTF8(b[:most], nil)) + "..."
	}
	return s
}
