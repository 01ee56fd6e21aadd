/** The folders by which the kernel shows its control groups: where they are mounted, and those of commands among them. */
import { readdirSync, readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const prefix = 'service-command-';

/** Names a group of this process. */
export function groupName(count: number | string): string {
  return `${prefix}${process.pid}-${count}`;
}

/** What a killed server left behind: groups without a process can be removed, those at work cannot. */
export function sweep(folder: string): void {
  for (const name of readdirSync(folder)) {
    const owner = Number(name.startsWith(prefix) ? name.slice(prefix.length).split('-')[0] : Number.NaN);
    if (Number.isNaN(owner) || owner === process.pid || isAlive(owner)) continue;
    tryToRemove(join(folder, name));
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** The kernel takes a moment to see that the last process is gone. */
export async function remove(group: string): Promise<void> {
  for (let round = 0; round < 50; round += 1) {
    if (tryToRemove(group)) return;
    await delay(20, undefined, { ref: false });
  }
}

function tryToRemove(group: string): boolean {
  try {
    rmdirSync(group);
    return true;
  } catch (error) {
    // `as`: file system calls throw errno errors only.
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}

export interface Mount {
  readonly folder: string;
  readonly type: string;
  readonly options: readonly string[];
}

export function mounts(): readonly Mount[] {
  return lines('/proc/self/mounts').map((line) => {
    const [, folder = '', type = '', options = ''] = line.split(' ');
    return { folder, type, options: options.split(',') };
  });
}

/** The path of this process's group by controller; that of version 2 stands under the empty name. */
export function ownGroups(): ReadonlyMap<string, string> {
  return new Map(
    lines('/proc/self/cgroup').flatMap((line) => {
      const [, controllers = '', ...path] = line.split(':');
      return controllers.split(',').map((name) => [name, path.join(':')] as const);
    }),
  );
}

function lines(file: string): readonly string[] {
  return readFileSync(file, 'utf8').trim().split('\n');
}
