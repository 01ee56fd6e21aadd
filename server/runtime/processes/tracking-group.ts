/** A control group without limits around each command that no sandbox holds: none of its processes gets lost in it. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { groupName, mounts, ownGroups, sweep } from './group-folders.ts';

/** A group around one command. */
export interface TrackingGroup {
  /** The words in front of a command that put it into the group before it starts. */
  readonly entering: readonly string[];
  /** Ends every process in it, however it has left its parents, and removes the group. */
  end(): Promise<void>;
}

/** What makes such groups; or why there are none. */
export type Tracking = { open(): TrackingGroup } | { readonly unavailable: string };

let known: Tracking | undefined;
let opened = 0;

/** Tried once, by the first command that needs it. */
export function tracking(): Tracking {
  known ??= detectTracking();
  return known;
}

/** Why a process that hides from its parents may outlive its command here, outside of a sandbox; null where it cannot. */
export function whyProcessesMayOutlive(): string | null {
  const found = tracking();
  return 'unavailable' in found ? found.unavailable : null;
}

/** Tries to make a group in each hierarchy: any will do, since nothing is limited. */
function detectTracking(): Tracking {
  if (process.platform !== 'linux') return { unavailable: 'control groups exist only on Linux' };
  const folders = foldersToTry();
  for (const folder of folders) {
    try {
      sweep(folder);
      const trial = make(folder);
      const mayEnter = writableEntrance(trial);
      rmdirSync(trial);
      if (mayEnter) return { open: () => openIn(folder) };
    } catch {
      // Not for this process to change: perhaps another one is.
    }
  }
  return {
    unavailable: `no control group can be made in ${folders.join(', ') || 'any place: none is mounted'}`,
  };
}

function foldersToTry(): readonly string[] {
  const own = ownGroups();
  return mounts().flatMap(({ folder, type, options }) => {
    if (type === 'cgroup2') return own.has('') ? [join(folder, own.get('') ?? '')] : [];
    if (type !== 'cgroup') return [];
    const controller = [...own.keys()].find((name) => name !== '' && options.includes(name));
    if (controller === undefined) return [];
    // In a container the path is often that of the host, and the mount shows the container's group alone.
    const path = join(folder, own.get(controller) ?? '');
    return [existsSync(path) ? path : folder];
  });
}

function make(folder: string): string {
  opened += 1;
  const group = join(folder, groupName(`all-${opened}`));
  mkdirSync(group);
  return group;
}

/** An empty word is no process: what counts is whether the file may be opened. */
function writableEntrance(group: string): boolean {
  writeFileSync(join(group, 'cgroup.procs'), '');
  return true;
}

function openIn(folder: string): TrackingGroup {
  const group = make(folder);
  const script = 'echo $$ > "$1" && shift && exec "$@"';
  return {
    entering: ['/bin/sh', '-c', script, 'sh', join(group, 'cgroup.procs')],
    end: () => endAll(group),
  };
}

/** In rounds, because a process may fork between being listed and being killed. */
async function endAll(group: string): Promise<void> {
  for (let round = 0; round < 100; round += 1) {
    killAll(group);
    if (removeTree(group)) return;
    await delay(10, undefined, { ref: false });
  }
}

/** A command of the same user may have made groups in its own. */
function killAll(group: string): void {
  for (const inner of groupsIn(group)) killAll(join(group, inner));
  const text = readIfThere(join(group, 'cgroup.procs'));
  // Zero is a process that another container holds.
  for (const pid of text
    .split('\n')
    .map(Number)
    .filter((one) => one > 0)) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has ended meanwhile.
    }
  }
}

function removeTree(group: string): boolean {
  try {
    for (const inner of groupsIn(group)) removeTree(join(group, inner));
    rmdirSync(group);
    return true;
  } catch {
    return !existsSync(group);
  }
}

function groupsIn(group: string): readonly string[] {
  try {
    return readdirSync(group, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch {
    // It is gone.
    return [];
  }
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // The group is gone.
    return '';
  }
}
