#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# python3: threads, locks, queues, conditions, thread pools, the GIL's hand-over.
# needs: /usr/bin/python3

exec /usr/bin/python3 - <<'EOF'
import concurrent.futures, os, queue, signal, socket, threading, time

n = 0
lock = threading.Lock()
def bump():
    global n
    for _ in range(2000):
        with lock:
            n += 1
ts = [threading.Thread(target=bump) for _ in range(16)]
[t.start() for t in ts]; [t.join() for t in ts]
print("counter", n)

q, r = queue.Queue(10), queue.Queue()
def worker():
    while (i := q.get()) is not None:
        r.put(i * i)
ws = [threading.Thread(target=worker) for _ in range(4)]
[w.start() for w in ws]
for i in range(1000): q.put(i)
for w in ws: q.put(None)
[w.join() for w in ws]
print("squares", sum(r.get() for _ in range(1000)))

with concurrent.futures.ThreadPoolExecutor(8) as ex:
    print("pool", sum(ex.map(lambda x: x ** 3, range(500))))
    print("as_completed", sorted(f.result() for f in concurrent.futures.as_completed(
        [ex.submit(lambda k: (time.sleep(0.001 * k), k)[1], k) for k in range(20)])))

b = threading.Barrier(6)
out = []
def meet(i):
    b.wait(); out.append(i); b.wait()
ts = [threading.Thread(target=meet, args=(i,)) for i in range(6)]
[t.start() for t in ts]; [t.join() for t in ts]
print("barrier", sorted(out))

c = threading.Condition()
print("timeout", c.acquire() and c.wait(0.05))
c.release()
e = threading.Event()
t = threading.Timer(0.05, e.set); t.start()
print("event", e.wait(10)); t.join()

def handler(sig, frame):
    print("signal in main thread", threading.current_thread() is threading.main_thread())
signal.signal(signal.SIGUSR1, handler)
t = threading.Thread(target=lambda: signal.raise_signal(signal.SIGUSR1)); t.start(); t.join()
time.sleep(0.01)
t = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1)); t.start(); t.join()
time.sleep(0.01)

def dying(): raise ValueError("in a thread")
threading.excepthook = lambda a: print("excepthook", a.exc_type.__name__, a.exc_value)
t = threading.Thread(target=dying); t.start(); t.join()

a, z = socket.socketpair()
def echo():
    while d := z.recv(4096): z.sendall(d[::-1])
    z.close()
t = threading.Thread(target=echo); t.start()
got = b""
for i in range(200):
    a.sendall(b"%03d" % i); got += a.recv(3)
a.shutdown(socket.SHUT_WR); print("echo", hash(got) == hash(got), len(got), got[:9]); t.join()
loc = threading.local(); loc.x = 1
t = threading.Thread(target=lambda: print("local", hasattr(loc, "x"))); t.start(); t.join()
print("native ids differ", len({threading.get_native_id()} | set(
    concurrent.futures.ThreadPoolExecutor(1).submit(threading.get_native_id).result() for _ in range(2))) == 3)
threading.stack_size(1 << 20)
go = threading.Event()
ts = [threading.Thread(target=go.wait) for _ in range(200)]
[t.start() for t in ts]; print("alive", threading.active_count()); go.set(); [t.join() for t in ts]
print("done", threading.active_count())
EOF
