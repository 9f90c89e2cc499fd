#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Standard files whose offset the caller's other programs move, too: what a program in the sandbox reads, writes and
# leaves behind is what it would natively. MOAT, PLATFORMS, TESTBIN: see run-compare.sh.
set -u
cd "$(dirname "$0")/.." || exit 2
. tests/suite.sh
begin_on ptrace trap notify

# same NAME SCRIPT: SCRIPT leaves the same files and says the same natively and on moat. In it `in` has ten lines, and
# `R CMD...` is the program's run.
same() {
	local how
	for how in native moat; do
		rm -rf "${dir:?}/$how" && mkdir "$dir/$how" && seq 10 >"$dir/$how/in"
		if [ $how = native ]; then
			R() { "$@"; }
		else
			R() { "$MOAT" run --platform "$p" --cwd / -- "$@"; }
		fi
		(cd "$dir/$how" && eval "$2") >"$dir/$how.said" 2>&1 </dev/null
		(cd "$dir/$how" && tail -n +1 -- *) >>"$dir/$how.said"
	done
	if cmp -s "$dir/native.said" "$dir/moat.said"; then
		ok
	else
		echo "FAIL $p: $1"
		diff "$dir/native.said" "$dir/moat.said" | head -n 20 | sed 's/^/    /'
		failed=$((failed + 1))
	fi
}

py() {
	R python3 -c "import fcntl, os, struct
$1"
}

needs_python3 stdio
for p in $PLATFORMS; do
	same 'copy behind what is there' '(echo first; R cat <in; echo last) >out'
	same 'copy from where the caller is' '(read -r x; R cat) <in >out'
	same 'copy to an appended file' 'echo first >out; (read -r x; R cat) <in >>out'
	same 'the caller goes on behind what was copied' '(py "os.copy_file_range(0, 1, 4)"; echo between; cat) <in >out'
	same 'offsets of its own move nothing' '(read -r x; py "os.copy_file_range(0, 1, 4, 2, 3)"; cat; echo last) <in >out'
	same 'sendfile' '(read -r x; py "os.sendfile(1, 0, None, 4)"; cat; echo last) <in >out'
	same 'splice into a pipe and out' '(read -r x; echo y; py "r, w = os.pipe()
os.splice(0, w, 6)
os.splice(r, 1, 6)"; cat; echo last) <in >out'
	same 'fdinfo' '(read -r x; R sh -c "head -n 1 /proc/self/fdinfo/0; exec 9</proc/self/fdinfo/0; cat <&9 | head -n 1") <in'
	same 'a lock from where another descriptor has come to' '(py "
os.read(0, 4)
fcntl.fcntl(1, fcntl.F_SETLK, struct.pack(\"hhqqi4x\", fcntl.F_RDLCK, 1, 0, 1, 0))
if os.fork() == 0:
    for at in range(6):
        r = fcntl.fcntl(1, fcntl.F_GETLK, struct.pack(\"hhqqi4x\", fcntl.F_WRLCK, 0, at, 1, 0))
        os.write(2, b\"%d %d\\n\" % (at, struct.unpack(\"hhqqi4x\", r)[0]))
    os._exit(0)
os.wait()") <>in 1<&0 2>said'
	same 'read and write' '(read -r x; echo first; py "os.write(1, os.read(0, 5))
os.lseek(0, 2, 1)
os.write(1, os.read(0, 2))"; cat; echo last) <in >out'
	same 'sendfile into a pipe' 'py "os.sendfile(1, 0, 2, 4)" <in | cat >out'
	same 'splice from a pipe and into one' 'cat in | py "r, w = os.pipe()
while os.splice(0, w, 999):
    os.splice(r, 1, 999)" | cat >out'
	same 'splice from a pipe that has nothing' 'mkfifo empty; py "r, w = os.pipe()
try:
    os.splice(0, w, 1, flags=os.SPLICE_F_NONBLOCK)
except OSError as e:
    os.write(2, e.strerror.encode())" <>empty 2>said; rm empty'
	same 'nothing' 'py "import select
for fd in 0, 1:
    os.write(2, b\"%d \" % os.lseek(fd, 5, os.SEEK_CUR))
    try:
        select.epoll().register(fd)
    except OSError as e:
        os.write(2, e.strerror.encode())
os.write(2, os.pread(0, 9, 9) + b\"%d %d\" % (os.pwrite(1, b\"x\", 9), os.write(1, b\"xyz\")))" </dev/null >/dev/null 2>said'
	same 'how much there is to read' '(read -r x; py "own = os.open(\"/proc/self/fd/0\", 0)
os.read(own, 5)
for fd in 0, own:
    os.write(1, fcntl.ioctl(fd, 0x541b, bytes(4)))") <in >said'
	same 'two descriptors of one file' 'py "os.write(2, b\"%d\" % os.path.sameopenfile(0, 1))
try:
    os.copy_file_range(0, 1, 9, 0, 5)
except OSError as e:
    os.write(2, e.strerror.encode())" <>in 1<>in 2>said'
	same 'made shorter, but not so short as the limit on sizes' 'py "import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
os.write(1, bytes(90))
resource.setrlimit(resource.RLIMIT_FSIZE, (50, -1))
for size in 80, 40, 50, 60:
    try:
        os.ftruncate(1, size)
    except OSError as e:
        os.write(2, b\"%d \" % size)" 2>&1 >out | cat >said'
	same 'two files' 'py "os.write(2, b\"%d\" % os.path.sameopenfile(0, 1))" <in >out 2>said'
	same 'one file for reading and writing' '(read -r x; R sed -n 2p; R echo new; cat) <>in 1<>in'
done
end
