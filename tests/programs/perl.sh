#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# perl: files, processes, pipes, signals, sockets, sorting, locks.
# needs: perl

exec perl - <<'EOF'
use strict; use warnings; use POSIX (); use Socket; use IO::Select; use Fcntl qw(:flock :seek); use File::Temp 'tempdir';
use Time::HiRes qw(sleep alarm time); use File::Find; use IPC::Open3; use Digest::SHA 'sha256_hex'; use Storable;
$| = 1;
my $d = tempdir(CLEANUP => 1); chdir $d or die;
open my $f, '+>', 'f' or die; print $f "line $_\n" for 1 .. 5000; seek $f, 0, SEEK_SET;
my @l = <$f>; print scalar(@l), " ", sha256_hex(join '', sort @l), "\n";
print -s 'f', " ", (-f 'f' ? 1 : 0), (-d '.' ? 1 : 0), (-l 'f' ? 1 : 0), "\n";
symlink 'f', 's'; link 'f', 'h'; rename 'h', 'h2'; print join(',', sort glob '*'), " ", readlink('s'), " ", (stat 'f')[3], "\n";
truncate $f, 100; print -s 'f', "\n"; chmod 0600, 'f'; printf "%o\n", (stat 'f')[2]; utime 5, 6, 'f'; print join(' ', (stat 'f')[8, 9]), "\n";
my $pid = fork; if (!$pid) { exit 7 } waitpid $pid, 0; print $? >> 8, "\n";
$pid = fork; if (!$pid) { kill 'KILL', $$; sleep 9 } waitpid $pid, 0; print $? & 127, "\n";
print `echo backtick; exit 2`, $? >> 8, "\n"; system 'exit 3'; print $? >> 8, "\n"; print system('/nonexistent') == -1 ? "$!\n" : "?\n";
open my $p, '-|', 'seq 1 10' or die; my $s = 0; $s += $_ while <$p>; close $p; print "$s\n";
open $p, '|-', 'tr a-z A-Z' or die; print $p "to a pipe\n"; close $p;
$pid = open3(my $in, my $out, undef, 'cat'); print $in "open3\n"; close $in; print <$out>; waitpid $pid, 0;
local $SIG{USR1} = sub { print "USR1\n" }; kill USR1 => $$;
eval { local $SIG{ALRM} = sub { die "alarm\n" }; alarm 0.1; sleep 5 }; print $@;
local $SIG{CHLD} = sub { while ((my $k = waitpid -1, POSIX::WNOHANG()) > 0) { print "reaped ", $? >> 8, "\n" } };
$pid = fork; if (!$pid) { POSIX::_exit(4) } sleep 0.5; sleep 0.1; $SIG{CHLD} = 'DEFAULT';
socketpair my $a, my $b, AF_UNIX, SOCK_STREAM, PF_UNSPEC or die; $pid = fork;
if (!$pid) { close $a; while (my $x = <$b>) { syswrite $b, uc $x } exit 0 } close $b;
for (1 .. 3) { syswrite $a, "msg $_\n"; print scalar <$a> } close $a; waitpid $pid, 0;
my @w; for my $k (1 .. 5) { pipe my $r, my $w or die; if (!($pid = fork)) { close $r; sleep 0.02 * $k; print $w $k; exit } close $w; push @w, $r }
my $sel = IO::Select->new(@w); my @got; while ($sel->count) { for my $h ($sel->can_read) { sysread $h, my $x, 10 or do { $sel->remove($h); next }; push @got, $x } } print join(',', sort @got), "\n"; 1 while wait > 0;
open my $k, '>', 'lock' or die; flock $k, LOCK_EX or die; $pid = fork; if (!$pid) { open my $k2, '>', 'lock'; exit(flock($k2, LOCK_EX | LOCK_NB) ? 1 : 0) } waitpid $pid, 0; print "lock $?\n";
my $n = 0; mkdir 'x'; for (1 .. 300) { mkdir "x/$_"; open my $t, '>', "x/$_/f"; } find(sub { $n++ }, 'x'); print "found $n\n";
unlink glob 'x/*/f'; rmdir for glob 'x/*'; print rmdir('x') ? "gone\n" : "$!\n";
my %h = map { $_ => $_ ** 2 } 1 .. 1000; store \%h, 'st'; print retrieve('st')->{999}, "\n";
print join(' ', map { $_ % 3 ? () : $_ } 1 .. 20), "\n"; printf "%s\n", POSIX::strftime('%F', gmtime 86400 * 365);
my ($sysname, undef, undef, undef, $m) = POSIX::uname(); print "$sysname $m\n"; print POSIX::sysconf(POSIX::_SC_PAGESIZE()), "\n";
$SIG{PIPE} = sub { print "PIPE\n" }; pipe my $r, my $w; close $r; print defined syswrite($w, 'x') ? 1 : "$!\n";
die "the end\n";
EOF
