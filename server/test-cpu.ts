/**
 * What work costs, whatever else the machine does meanwhile: processor time of this thread, in milliseconds of a
 * machine as fast as those that the limits were measured on. A slower one is told by what a known piece of work takes
 * it, right before and right after: the same machine takes half as long again for all at one hour as at another.
 */

export async function cpuMsOf(work: () => unknown): Promise<number> {
  const slownessBefore = slowness();
  const before = process.threadCpuUsage();
  await work();
  return msSince(before) / Math.max(slownessBefore, slowness());
}

/** Watches the event loop; the answer stops that, and says how long the loop was held up at most, in the same measure. */
export function watchLoop(): () => number {
  const slownessBefore = slowness();
  const longestHold = watchHolds();
  return () => longestHold() / Math.max(slownessBefore, slowness());
}

/** The longest time that work holds the event loop at once, as a share of what it costs in all: no machine's speed counts. */
export async function largestHoldOf(work: () => unknown): Promise<number> {
  const longestHold = watchHolds();
  const before = process.threadCpuUsage();
  await work();
  const held = longestHold();
  return held / msSince(before);
}

/** The answer stops it, and tells the longest hold in milliseconds of processor time of this thread. */
function watchHolds(): () => number {
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

const knownWork = JSON.stringify(Array.from({ length: 4000 }, (_, id) => ({ id, text: 'word '.repeat(20) })));
const knownMs = 45;

/** How many times as long as there the known work takes now; 1 where it takes less, so that no limit is ever tighter. */
function slowness(): number {
  const before = process.threadCpuUsage();
  for (let time = 0; time < 64; time += 1) JSON.parse(knownWork);
  return Math.max(1, msSince(before) / knownMs);
}

function msSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1000;
}
