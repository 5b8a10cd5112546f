package bpf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// pidfdThread is PIDFD_THREAD (include/uapi/linux/pidfd.h): a descriptor of one thread. Linux 6.9.
const pidfdThread = unix.O_EXCL

// maxPasses bounds the walks over a process tree that grows: each begins with the tags of the one before.
const maxPasses = 100

// tagTree gives the tag to a process, its threads and its descendants. It walks until a walk finds nobody without it:
// whoever was born meanwhile has it from its parent.
func (w *Watcher) tagTree(pid int, tag silkTag) error {
	for range maxPasses {
		fresh, err := w.tagProcess(pid, tag)
		if err != nil {
			return fmt.Errorf("watch process %d: %w", pid, err)
		}
		if fresh == 0 {
			return nil
		}
	}
	return fmt.Errorf("watch process %d: it keeps making processes that have no tag", pid)
}

// tagProcess gives the tag to a process and what is below it, and says how many tasks did not have it.
func (w *Watcher) tagProcess(pid int, tag silkTag) (fresh int, err error) {
	n, err := w.tagTask(pid, 0, tag)
	if err != nil {
		return 0, err
	}
	fresh += n
	tasks := filepath.Join("/proc", strconv.Itoa(pid), "task")
	threads, err := os.ReadDir(tasks)
	if err != nil {
		return 0, err
	}
	for _, entry := range threads {
		thread, err := strconv.Atoi(entry.Name())
		if err != nil {
			return 0, err
		}
		if thread != pid {
			n, err := w.tagTask(thread, w.threadFlag, tag)
			if errors.Is(err, unix.EINVAL) { // before Linux 6.9
				n, err = w.adopt(pid, tag)
			}
			if err != nil && !gone(err) {
				return 0, err
			}
			fresh += n
		}
		list, err := os.ReadFile(filepath.Join(tasks, entry.Name(), "children"))
		if gone(err) {
			if _, err := os.Stat("/proc/self/task/" + strconv.Itoa(unix.Gettid()) + "/children"); err != nil {
				return 0, fmt.Errorf("the kernel does not say what its children are (CONFIG_PROC_CHILDREN): %w", err)
			}
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, field := range strings.Fields(string(list)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				return 0, err
			}
			n, err := w.tagProcess(child, tag)
			if err != nil && !gone(err) {
				return 0, err
			}
			fresh += n
		}
	}
	return fresh, nil
}

// tagTask gives one task the tag and says whether it did not have it.
func (w *Watcher) tagTask(id int, flags int, tag silkTag) (fresh int, err error) {
	fd, err := unix.PidfdOpen(id, flags)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var has silkTag
	err = raced(func() error { return w.kernel.Tags.Lookup(uint32(fd), &has) })
	if err == nil && has == tag {
		return 0, nil
	}
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, fmt.Errorf("look for its tag: %w", err)
	}
	if err := raced(func() error { return w.kernel.Tags.Put(uint32(fd), tag) }); err != nil {
		return 0, fmt.Errorf("tag it: %w", err)
	}
	return 1, nil
}

// raceTries bounds how often what lost a race is done again. One loser in two tries would be much.
const raceTries = 100

// raced does something to the storage of a task, and does it again while somebody else is at it: the kernel says EAGAIN to the
// one of two who comes second with a task's first storage, and EBUSY to whoever finds it in use on its processor
// (kernel/bpf/bpf_local_storage.c, bpf_task_storage.c).
func raced(do func() error) (err error) {
	for range raceTries {
		if err = do(); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EBUSY) {
			return err
		}
		runtime.Gosched()
	}
	return err
}

// adopt lets the kernel give the tag to all threads of a process, and says how many did not have it.
func (w *Watcher) adopt(pid int, tag silkTag) (fresh int, err error) {
	w.adopting.Lock()
	defer w.adopting.Unlock()
	k := w.kernel
	err = errors.Join(k.AdoptProcess.Set(uint32(pid)), k.AdoptSlot.Set(tag.Slot), k.AdoptGeneration.Set(tag.Generation))
	if err != nil {
		return 0, fmt.Errorf("tag its threads: %w", err)
	}
	members, err := readTasks(w.adopter)
	if err != nil {
		return 0, fmt.Errorf("tag its threads: %w", err)
	}
	return len(members), nil
}

// gone says whether err means that a process or thread has ended.
func gone(err error) bool { return errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist) }
