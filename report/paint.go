package report

// painter writes nodes for people in one of the formats.
type painter interface {
	paragraph(text string)
	notes(list []string)
	facts(list []fact) // at least one
	// heading has a level from 2 on.
	heading(title string, level int)
	table(t *TableNode) error // with rows; the heading is already written
	drawing(n *Drawing) error
}

// paint writes nodes below headings of the given level.
func paint(p painter, list []Node, level int) error {
	for _, n := range list {
		if err := paintNode(p, n, level); err != nil {
			return err
		}
	}
	return nil
}

func paintNode(p painter, n Node, level int) error {
	switch n := n.(type) {
	case Paragraph:
		p.paragraph(string(n))
	case Notes:
		p.notes(n)
	case People:
		return paint(p, n, level)
	case *FactList:
		if shown := n.shown(); len(shown) > 0 {
			p.facts(shown)
		}
	case *TableNode:
		if n.length == 0 {
			return nil
		}
		paintHeading(p, n.title, level)
		return p.table(n)
	case *Section:
		return paintSection(p, n, level)
	case *List:
		for i := range n.Items {
			if err := paintSection(p, &n.Items[i], level); err != nil {
				return err
			}
		}
	case *Drawing:
		return p.drawing(n)
	}
	return nil
}

func paintSection(p painter, s *Section, level int) error {
	paintHeading(p, s.Title, level)
	return paint(p, s.Body, level+1)
}

func paintHeading(p painter, title string, level int) {
	if title != "" {
		p.heading(title, min(level, 6))
	}
}

// shown returns the facts that people see.
func (l *FactList) shown() []fact {
	var list []fact
	for _, f := range l.list {
		if f.people && !f.cell.missing {
			list = append(list, f)
		}
	}
	return list
}
