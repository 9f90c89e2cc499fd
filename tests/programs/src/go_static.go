// SPDX-License-Identifier: Apache-2.0

// A Go program that leans on what Go's run time asks of a kernel: threads made
// by raw clone, futexes, SIGURG preemption, epoll, timers, vfork-like children.
package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func check(what string, err error) {
	if err != nil {
		fmt.Println(what, "failed:", err)
		os.Exit(1)
	}
}

// preempt: with one P, a loop without a call in it must still be interrupted.
func preempt() {
	var stop uint32
	var spins uint64
	done := make(chan bool)
	go func() {
		for atomic.LoadUint32(&stop) == 0 {
			for i := 0; i < 1000; i++ {
				spins++
			}
		}
		done <- true
	}()
	ticks := 0
	for ticks < 20 {
		time.Sleep(2 * time.Millisecond)
		ticks++
	}
	atomic.StoreUint32(&stop, 1)
	<-done
	fmt.Println("preempted a busy loop, ticks", ticks, "spun", spins > 0)
}

func memory() {
	var keep [][]byte
	sum := 0
	for i := 0; i < 3000; i++ {
		b := make([]byte, 10000+i)
		b[i] = byte(i)
		if i%50 == 0 {
			keep = append(keep, b)
		}
		sum += int(b[i])
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Println("kept", len(keep), "sum", sum, "collected", m.NumGC > 3)
}

func goroutines() {
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	ch := make(chan int, 16)
	for i := 0; i < 1000; i++ {
		wg.Add(1)
		go func(n int) {
			defer wg.Done()
			if n%10 == 0 {
				time.Sleep(time.Millisecond)
			}
			ch <- n
		}(i)
	}
	go func() { wg.Wait(); close(ch) }()
	for n := range ch {
		mu.Lock()
		total += n
		mu.Unlock()
	}
	fmt.Println("goroutines", total)

	// Threads blocked in system calls: more Ms than Ps.
	var ready sync.WaitGroup
	for i := 0; i < 50; i++ {
		ready.Add(1)
		go func() {
			defer ready.Done()
			ts := syscall.Timespec{Nsec: 20000000}
			syscall.Nanosleep(&ts, nil)
		}()
	}
	ready.Wait()
	fmt.Println("threads done")
}

func timers() {
	var order []string
	a, b := time.After(60*time.Millisecond), time.After(20*time.Millisecond)
	for len(order) < 2 {
		select {
		case <-a:
			order = append(order, "a")
		case <-b:
			order = append(order, "b")
		}
	}
	t := time.NewTicker(5 * time.Millisecond)
	for i := 0; i < 5; i++ {
		<-t.C
	}
	t.Stop()
	fmt.Println("timers", order)
}

func files() {
	d, err := os.MkdirTemp("", "go")
	check("mkdtemp", err)
	defer os.RemoveAll(d)
	for i := 0; i < 100; i++ {
		check("write", os.WriteFile(filepath.Join(d, fmt.Sprint(i)), []byte(strings.Repeat("x", i)), 0o640))
	}
	es, err := os.ReadDir(d)
	check("readdir", err)
	var size int64
	for _, e := range es {
		i, _ := e.Info()
		size += i.Size()
	}
	fmt.Println("files", len(es), size)
	check("symlink", os.Symlink("1", filepath.Join(d, "link")))
	l, _ := os.Readlink(filepath.Join(d, "link"))
	_, err = os.Open(filepath.Join(d, "none"))
	fmt.Println("link", l, errors.Is(err, os.ErrNotExist))
	var st syscall.Stat_t
	check("stat", syscall.Stat(filepath.Join(d, "7"), &st))
	fmt.Printf("stat %o %d %d\n", st.Mode, st.Size, st.Nlink)
	n := 0
	filepath.WalkDir("/etc", func(string, os.DirEntry, error) error { n++; return nil })
	fmt.Println("walked", n > 10)
}

func sockets() {
	d, err := os.MkdirTemp("", "go")
	check("mkdtemp", err)
	defer os.RemoveAll(d)
	l, err := net.Listen("unix", d+"/s")
	check("listen", err)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { io.Copy(c, c); c.Close() }()
		}
	}()
	var wg sync.WaitGroup
	var ok int32
	for i := 0; i < 20; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			c, err := net.Dial("unix", d+"/s")
			if err != nil {
				return
			}
			defer c.Close()
			want := fmt.Sprintf("hello %d\n", i)
			io.WriteString(c, want)
			if got, _ := bufio.NewReader(c).ReadString('\n'); got == want {
				atomic.AddInt32(&ok, 1)
			}
		}(i)
	}
	wg.Wait()
	l.Close()
	fmt.Println("unix sockets", ok)
	r, w, err := os.Pipe()
	check("pipe", err)
	r.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, err = r.Read(make([]byte, 1))
	fmt.Println("deadline", errors.Is(err, os.ErrDeadlineExceeded))
	w.Close()
}

func children() {
	out, err := exec.Command("sh", "-c", "echo child $A; exit 3").CombinedOutput()
	fmt.Printf("%q %v\n", out, err)
	c := exec.Command("tr", "a-z", "A-Z")
	c.Stdin = strings.NewReader("upper")
	out, _ = c.Output()
	fmt.Printf("%q\n", out)
	c = exec.Command("sleep", "100")
	check("start", c.Start())
	c.Process.Kill()
	fmt.Println(c.Wait())
	var wg sync.WaitGroup
	var mu sync.Mutex
	var got []string
	for i := 0; i < 10; i++ {
		wg.Add(1)
		go func(i int) {
			defer wg.Done()
			o, _ := exec.Command("echo", fmt.Sprint(i)).Output()
			mu.Lock()
			got = append(got, strings.TrimSpace(string(o)))
			mu.Unlock()
		}(i)
	}
	wg.Wait()
	sort.Strings(got)
	fmt.Println(got)
	_, err = exec.LookPath("no-such-program")
	fmt.Println(err)
}

func signals() {
	ch := make(chan os.Signal, 10)
	signal.Notify(ch, syscall.SIGUSR1, syscall.SIGTERM)
	syscall.Kill(os.Getpid(), syscall.SIGUSR1)
	fmt.Println(<-ch)
	syscall.Kill(os.Getpid(), syscall.SIGTERM)
	fmt.Println(<-ch)
	func() {
		defer func() { fmt.Println("recovered:", recover()) }()
		var p *int
		*p = 1
	}()
}

func raw() {
	pid, _, e := syscall.RawSyscall(syscall.SYS_GETPID, 0, 0, 0)
	fmt.Println("raw", int(pid) == os.Getpid(), e)
	_, _, e = syscall.RawSyscall(syscall.SYS_CLOSE, 9999, 0, 0)
	fmt.Println("raw", e)
	_, _, e = syscall.Syscall(9999, 1, 2, 3)
	fmt.Println("raw", e)
	m, err := syscall.Mmap(-1, 0, 1<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	check("mmap", err)
	m[1<<20-1] = 5
	fmt.Println("munmap", syscall.Munmap(m))
	fmt.Printf("%x\n", sha256.Sum256([]byte("moat")))
}

// first: profiles (runtime/pprof) take the first code in the memory for the program. Where the heap
// begins right behind it there is no room for anything else.
func first() {
	stat, err := os.ReadFile("/proc/self/stat")
	check("stat", err)
	field := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
	endData, _ := strconv.ParseUint(field[44], 10, 64)
	startBrk, _ := strconv.ParseUint(field[45], 10, 64)
	maps, err := os.ReadFile("/proc/self/maps")
	check("maps", err)
	exe, err := os.Executable()
	check("executable", err)
	line, _, _ := strings.Cut(string(maps), "\n")
	fmt.Println("first", startBrk < endData+1<<20 || strings.HasSuffix(line, exe))
}

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "preempt":
			preempt()
			return
		case "memory":
			memory()
			return
		case "panic":
			panic("as asked")
		}
	}
	fmt.Println(os.Args[1:], runtime.GOOS, runtime.GOARCH)
	goroutines()
	preempt()
	timers()
	files()
	sockets()
	children()
	signals()
	raw()
	first()
	os.Exit(6)
}
