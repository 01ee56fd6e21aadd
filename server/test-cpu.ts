/** What work costs, whatever else the machine does meanwhile: processor time of this thread, in milliseconds. */

export async function cpuMsOf(work: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  await work();
  return msSince(before);
}

/** Watches the event loop; the answer stops that, and says how long the loop was held up at most. */
export function watchLoop(): () => number {
  let longest = 0;
  let last = process.threadCpuUsage();
  const look = () => {
    longest = Math.max(longest, msSince(last));
    last = process.threadCpuUsage();
  };
  const timer = setInterval(look, 5);
  return () => {
    clearInterval(timer);
    look();
    return longest;
  };
}

function msSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
