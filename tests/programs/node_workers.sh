#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# node: worker threads, timers, promises, child processes, streams, files.
# needs: node

cd "$TMPDIR" || exit 1
cat >main.js <<'EOF'
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const fs = require('fs'), cp = require('child_process'), zlib = require('zlib'), crypto = require('crypto'), net = require('net');
if (!isMainThread) {
	const a = new Int32Array(workerData.sab);
	for (let i = 0; i < 10000; i++) Atomics.add(a, 0, 1);
	Atomics.add(a, 1, 1); Atomics.notify(a, 1);
	parentPort.on('message', (m) => { if (m === 'end') process.exit(workerData.id); parentPort.postMessage(m * workerData.id); });
	return;
}
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
(async () => {
	const sab = new SharedArrayBuffer(8);
	const ws = [1, 2, 3, 4].map((id) => new Worker(__filename, { workerData: { sab, id } }));
	const got = await Promise.all(ws.map((w) => new Promise((r) => { w.once('message', r); w.postMessage(100); })));
	console.log('workers', got, Array.from(new Int32Array(sab)));
	console.log('exits', await Promise.all(ws.map((w) => new Promise((r) => { w.once('exit', r); w.postMessage('end'); }))));
	const order = [];
	setTimeout(() => order.push('t30'), 30); setTimeout(() => order.push('t10'), 10); setImmediate(() => order.push('immediate'));
	process.nextTick(() => order.push('tick')); Promise.resolve().then(() => order.push('micro'));
	await sleep(150); console.log(order.join(' '));
	let n = 0; await new Promise((r) => { const t = setInterval(() => { if (++n === 5) { clearInterval(t); r(); } }, 5); }); console.log('interval', n);
	await fs.promises.writeFile('f', 'x'.repeat(100000)); console.log((await fs.promises.stat('f')).size);
	await fs.promises.mkdir('d/e', { recursive: true }); await Promise.all([...Array(100).keys()].map((i) => fs.promises.writeFile('d/' + i, '' + i)));
	console.log((await fs.promises.readdir('d')).length, (await Promise.all([...Array(100).keys()].map((i) => fs.promises.readFile('d/' + i, 'utf8')))).reduce((a, b) => a + +b, 0));
	console.log(crypto.createHash('sha256').update(fs.readFileSync('f')).digest('hex'));
	console.log(zlib.gunzipSync(await new Promise((r) => zlib.gzip(fs.readFileSync('f'), (e, b) => r(b)))).length);
	console.log(cp.execSync('echo from sh; cat', { input: 'stdin\n' }).toString().trim().split('\n'));
	const c = cp.spawn('sh', ['-c', 'cat; exit 3'], { stdio: ['pipe', 'pipe', 'inherit'] }); let o = ''; c.stdout.on('data', (d) => o += d); c.stdin.end('piped');
	console.log('child', await new Promise((r) => c.on('close', (code) => r(code))), o);
	const k = cp.spawn('sleep', ['100']); k.kill('SIGTERM'); console.log('killed', await new Promise((r) => k.on('exit', (code, sig) => r(sig))));
	const f = cp.fork(__dirname + '/child.js'); f.send({ a: 1 }); console.log('ipc', await new Promise((r) => f.once('message', r))); f.disconnect();
	const srv = net.createServer((s) => { s.on('data', (d) => s.write(d.toString().toUpperCase())); s.on('end', () => s.end()); });
	await new Promise((r) => srv.listen('sock', r)); const s = net.connect('sock'); s.write('hello'); console.log('unix', (await new Promise((r) => s.once('data', r))).toString()); s.end(); srv.close();
	const w = fs.watch('d'); const ev = new Promise((r) => w.once('change', (t, n) => r([t, n]))); fs.writeFileSync('d/new', ''); console.log('watch', await ev); w.close();
	process.on('SIGUSR2', () => console.log('signal')); process.kill(process.pid, 'SIGUSR2'); await sleep(50);
	try { fs.readFileSync('/nonexistent'); } catch (e) { console.log(e.code, e.syscall); }
	await new Promise((r) => crypto.pbkdf2('a', 'b', 1000, 16, 'sha1', (e, k) => { console.log(k.toString('hex')); r(); }));
	process.exitCode = 4;
})();
EOF
echo "process.on('message', (m) => process.send({ got: m }));" >child.js
node main.js
echo "exit $?"
node -e 'throw new Error("uncaught")' 2>&1 | grep -a '^Error'
echo 'console.log(6 * 7)' | node -
