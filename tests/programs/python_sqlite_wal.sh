#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# sqlite3 in WAL mode: four writing processes and a reader; POSIX locks and a shared mapping.
# needs: /usr/bin/python3 sqlite3

cat >"$TMPDIR/w.py" <<'EOF'
import sqlite3, sys
db = sqlite3.connect(sys.argv[1], timeout=100, isolation_level=None)
db.execute("pragma synchronous=normal")
for i in range(150):
    db.execute("begin immediate")
    (n,) = db.execute("select max(total) from log").fetchone()
    db.execute("insert into log(who, n, total) values (?, ?, ?)", (int(sys.argv[2]), i, (n or 0) + 1))
    db.execute("commit")
EOF
cd "$TMPDIR" || exit 1
sqlite3 t.db 'pragma journal_mode=wal; create table log(id integer primary key, who, n, total);'
for w in 1 2 3 4; do /usr/bin/python3 w.py t.db $w & done
for _ in 1 2 3 4 5; do
	sqlite3 -cmd '.timeout 100000' t.db 'select count(*) = coalesce(max(total), 0) from log'
done
wait
sqlite3 t.db 'select who, count(*), max(n) from log group by who; select count(*), max(total), count(distinct total) from log; pragma integrity_check; pragma wal_checkpoint(truncate);'
ls t.db*
sqlite3 t.db 'pragma journal_mode=delete; vacuum; select sum(total) from log; pragma mmap_size=1000000; select sum(id) from log;'
ls t.db*
sqlite3 m.db <<'EOF'
create table a(x, y text);
with recursive c(i) as (select 1 union all select i+1 from c where i < 20000) insert into a select i, hex(i * 7919 % 10007) from c;
create index ai on a(y);
select count(*), count(distinct y), min(y), max(y) from a;
begin; delete from a where x % 2; rollback; select count(*) from a;
begin exclusive; delete from a where x % 3; commit; select count(*) from a;
.backup b.db
attach 'b.db' as b; select (select count(*) from a) = (select count(*) from b.a);
EOF
flock b.db sqlite3 b.db 'select total_changes()'
