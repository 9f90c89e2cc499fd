// SPDX-License-Identifier: Apache-2.0
// Prints what may differ from run to run, by node.
import { randomUUID, randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { execFileSync } from 'node:child_process';
import { Worker } from 'node:worker_threads';

console.log(Math.random(), randomUUID(), randomBytes(8).toString('hex'));
console.log(Date.now(), performance.now(), process.hrtime.bigint(), process.pid);
const dir = mkdtempSync('/tmp/n');
for (let i = 0; i < 10; i++) writeFileSync(`${dir}/f${i * 3 % 10}`, 'x');
console.log(dir, readdirSync(dir));
const log = [];
await Promise.all([1, 2, 3].map(async n => {
    for (let i = 0; i < 3; i++) { await sleep(n * 100); log.push(n); }
}));
console.log(log.join(''), new Date().toISOString());
const seen = [];
await Promise.all([1, 2, 3].map(n => new Promise(done => {
    const w = new Worker(`
        const { parentPort } = require('node:worker_threads');
        let i = 0;
        const t = setInterval(() => {
            parentPort.postMessage(Math.random());
            if (++i === 5) clearInterval(t);
        }, ${n} * 10);`, { eval: true });
    w.on('message', m => seen.push(`${n} ${m} ${performance.now()}`));
    w.on('exit', done);
})));
console.log(seen);
console.log(execFileSync('date', ['+%Y-%m-%d']).toString());
await sleep(86400e3);
console.log(new Date().toISOString(), process.cpuUsage());
