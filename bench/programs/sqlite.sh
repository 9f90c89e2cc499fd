#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# sqlite.sh DATA SCRATCH SCALE: 20,000 rows in one transaction, 200 transactions of one row, and
# selects over them (by SCALE per cent).
set -eu
PATH=/usr/bin:/bin
db=$2/bench.db
rm -f "$db"
{
	echo 'create table t(id integer primary key, k integer, v text);'
	echo 'begin;'
	echo "with recursive n(i) as (select 1 union all select i + 1 from n where i < $((20000 * $3 / 100)))
		insert into t select i, i * 7919 % 10007, 'value ' || i from n;"
	echo 'commit; create index t_k on t(k);'
	i=0
	while [ $i -lt $((200 * $3 / 100)) ]; do
		echo "insert into t(k, v) values($i, 'one by one');"
		i=$((i + 1))
	done
	echo 'select count(*), sum(k) from t where k < 500; select count(distinct v) from t;'
} | sqlite3 "$db" >/dev/null
rm -f "$db"
