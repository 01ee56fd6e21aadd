/** The kernel's groups that bound what all processes of a command use together, where this process may make any. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TreeLimits } from '../commands/command.ts';
import { groupName, type Mount, mounts, ownGroups, remove, sweep } from './group-folders.ts';

/** A group for one command. */
export interface ControlGroup {
  /** To be written to by the command before it starts anything: files that take the id of a process. */
  readonly entrances: readonly string[];
  /** What the command has asked for beyond its limits, and did not get; null where it kept to them. */
  exceeded(): 'too_many_processes' | 'too_much_memory' | null;
  /** Removes the group, once every process in it has ended. */
  close(): Promise<void>;
}

/** What makes groups on this machine. */
export interface ControlGroups {
  readonly version: 1 | 2;
  open(limits: TreeLimits): ControlGroup;
}

/** Why there are none. */
export interface ControlGroupsUnavailable {
  readonly unavailable: string;
}

/** A folder in which groups can be made, and how a limit is set there. */
interface Hierarchy {
  readonly folder: string;
  limitFiles(limits: TreeLimits): Readonly<Record<string, string>>;
}

/** What is swapped out counts as well; a kernel that does not count it lacks the file. */
const swapFiles: ReadonlySet<string> = new Set(['memory.swap.max', 'memory.memsw.limit_in_bytes']);

let opened = 0;

/** Tries to make a group, as commands will have one. */
export function detectControlGroups(): ControlGroups | ControlGroupsUnavailable {
  if (process.platform !== 'linux') return { unavailable: 'they exist only on Linux' };
  const reasons: string[] = [];
  for (const [version, find] of [
    [2, unified],
    [1, separate],
  ] as const) {
    try {
      const groups = groupsIn(find(mounts(), ownGroups()), version);
      void groups.open({ processes: 16, memoryBytes: 2 ** 26 }).close();
      return groups;
    } catch (error) {
      reasons.push(`version ${version}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }
  return { unavailable: reasons.join('; ') };
}

function groupsIn(hierarchies: readonly Hierarchy[], version: 1 | 2): ControlGroups {
  for (const { folder } of hierarchies) sweep(folder);
  return {
    version,
    open(limits) {
      opened += 1;
      const folders: string[] = [];
      try {
        for (const { folder, limitFiles } of hierarchies) {
          const group = join(folder, groupName(opened));
          mkdirSync(group);
          folders.push(group);
          for (const [file, value] of Object.entries(limitFiles(limits)))
            if (!swapFiles.has(file) || existsSync(join(group, file)))
              writeFileSync(join(group, file), value);
        }
      } catch (error) {
        for (const group of folders) rmdirSync(group);
        throw error;
      }
      return {
        entrances: folders.map((group) => join(group, 'cgroup.procs')),
        exceeded: () => exceededIn(folders),
        close: async () => void (await Promise.all(folders.map(remove))),
      };
    },
  };
}

/** Each kind of group counts under names of its own. */
function exceededIn(folders: readonly string[]): ReturnType<ControlGroup['exceeded']> {
  const counted = (file: string, name: string) =>
    folders.some((folder) => {
      const text = readIfThere(join(folder, file));
      return new RegExp(`^${name} (?!0$)`, 'm').test(text);
    });
  if (counted('memory.events', 'oom_kill') || counted('memory.oom_control', 'oom_kill'))
    return 'too_much_memory';
  return counted('pids.events', 'max') ? 'too_many_processes' : null;
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    // Of the two versions each has files that the other lacks.
    return '';
  }
}

/** https://docs.kernel.org/admin-guide/cgroup-v2.html: a group with processes of its own has no limited children. */
function unified(mounted: readonly Mount[], own: ReadonlyMap<string, string>): readonly Hierarchy[] {
  const mount = mounted.find(({ type }) => type === 'cgroup2');
  const path = own.get('');
  if (!mount || path === undefined) throw new Error('not mounted');
  const folder = join(mount.folder, path);
  const offered = readFileSync(join(folder, 'cgroup.controllers'), 'utf8').trim().split(' ');
  const missing = ['memory', 'pids'].filter((name) => !offered.includes(name));
  if (missing.length > 0) throw new Error(`no controller ${missing.join(', ')} here`);
  enableChildren(folder);
  return [
    {
      folder,
      limitFiles: ({ processes, memoryBytes }) => ({
        'pids.max': String(processes),
        'memory.max': String(memoryBytes),
        'memory.swap.max': '0',
        'memory.oom.group': '1',
      }),
    },
  ];
}

/** This process moves into a group of its own, where it is alone: what is delegated to it may then be divided. */
function enableChildren(folder: string): void {
  const control = join(folder, 'cgroup.subtree_control');
  const enabled = readFileSync(control, 'utf8').trim().split(' ');
  if (enabled.includes('memory') && enabled.includes('pids')) return;
  const others = readFileSync(join(folder, 'cgroup.procs'), 'utf8').trim().split('\n').filter(Boolean);
  if (others.some((pid) => Number(pid) !== process.pid))
    throw new Error('the group is shared with other programs');
  const mine = join(folder, 'service-server');
  mkdirSync(mine, { recursive: true });
  writeFileSync(join(mine, 'cgroup.procs'), String(process.pid));
  writeFileSync(control, '+memory +pids');
}

/** https://docs.kernel.org/admin-guide/cgroup-v1/cgroups.html: each controller has a tree of its own. */
function separate(mounted: readonly Mount[], own: ReadonlyMap<string, string>): readonly Hierarchy[] {
  const place = (controller: string): string => {
    const mount = mounted.find(({ type, options }) => type === 'cgroup' && options.includes(controller));
    if (!mount) throw new Error(`no controller ${controller} is mounted`);
    // In a container the path is often that of the host, and the mount shows the container's group alone.
    const folder = join(mount.folder, own.get(controller) ?? '/');
    return isFolder(folder) ? folder : mount.folder;
  };
  return [
    { folder: place('pids'), limitFiles: ({ processes }) => ({ 'pids.max': String(processes) }) },
    {
      folder: place('memory'),
      // In this order: memory and swap together may not be less than memory.
      limitFiles: ({ memoryBytes }) => ({
        'memory.limit_in_bytes': String(memoryBytes),
        'memory.memsw.limit_in_bytes': String(memoryBytes),
      }),
    },
  ];
}

function isFolder(path: string): boolean {
  try {
    readdirSync(path);
    return true;
  } catch {
    return false;
  }
}
