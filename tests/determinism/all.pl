# SPDX-License-Identifier: Apache-2.0
# Prints what may differ from run to run, by perl.
use strict;
use Time::HiRes qw(time sleep clock_gettime CLOCK_MONOTONIC);
my %h = map { $_ => 1 } 'a' .. 'z';
print join(' ', keys %h), "\n";
print rand(), ' ', time(), ' ', clock_gettime(CLOCK_MONOTONIC), " $$\n";
print \%h, ' ', sub { }, "\n";
for my $n (1 .. 4) {
    next if fork();
    srand($n * 3);
    for (1 .. 3) { sleep(rand()); syswrite(STDOUT, "$n $$ " . time() . "\n"); }
    exit 0;
}
1 while wait() > 0;
eval { local $SIG{ALRM} = sub { die "alarm\n" }; alarm 3000; select(undef, undef, undef, 1e6); };
print $@, scalar(localtime), "\n";
print times(), "\n";
