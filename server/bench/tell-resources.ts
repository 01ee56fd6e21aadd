/** Loaded into a measured process before its program: tells its parent what it holds and has used, whenever asked. */

/** What a process holds after a collection, and has used so far. */
export interface Resources {
  readonly heapUsed: number;
  readonly rss: number;
  readonly cpuMicroseconds: number;
}

process.on('message', (question) => {
  if (question === 'collect') {
    // Twice: what finalizers let go is only then free.
    globalThis.gc?.();
    globalThis.gc?.();
  }
  const { heapUsed, rss } = process.memoryUsage();
  const { user, system } = process.cpuUsage();
  process.send?.({ heapUsed, rss, cpuMicroseconds: user + system } satisfies Resources);
});
// The program ends as it would alone.
process.channel?.unref();
