package distill

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// lessons are the teacher's streams in front of its head, of rows that will be seen again.
type lessons struct {
	room  tensor.Tensor  // F32 [rows·length, hidden]
	at    map[*int32]int // numbers of those rows, by where their tokens begin
	known []bool
}

// newLessons makes room for those of the plan's first rows.
func newLessons(d device.Device, p *Plan, hidden int) lessons {
	rows := p.Rows[:min(p.Recall, len(p.Rows))]
	if len(rows) == 0 {
		return lessons{}
	}
	l := lessons{room: d.Alloc(tensor.F32, len(rows)*p.Length, hidden), at: map[*int32]int{}, known: make([]bool, len(rows))}
	for i, row := range rows {
		l.at[&row[0]] = i
	}
	return l
}

// lesson returns the place of a row's streams, and whether there is one.
func (t *Trainer) lesson(row []int32) (place tensor.Tensor, number int, there bool) {
	l := &t.lessons
	number, there = l.at[&row[0]]
	if there {
		place = l.room.Slice(number*t.plan.Length, (number+1)*t.plan.Length)
	}
	return place, number, there
}

// recall brings back what the teacher has said on all of some rows, if it is known.
func (t *Trainer) recall(rows [][]int32) bool {
	for _, row := range rows {
		if _, number, there := t.lesson(row); !there || !t.lessons.known[number] {
			return false
		}
	}
	for i, row := range rows {
		place, _, _ := t.lesson(row)
		t.dev.Copy(t.taught.Slice(i*t.plan.Length, (i+1)*t.plan.Length), place)
	}
	return true
}

// remember keeps what the teacher has said on rows.
func (t *Trainer) remember(rows [][]int32) {
	for i, row := range rows {
		if place, number, there := t.lesson(row); there {
			t.dev.Copy(place, t.taught.Slice(i*t.plan.Length, (i+1)*t.plan.Length))
			t.lessons.known[number] = true
		}
	}
}
