/** Tells how often anybody has committed to a database of SQLite: one small read of memory, without a turn of a thread. */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs';

export interface CommitCounter {
  /** Grows by one with every commit of every process; null where that cannot be told just now. */
  read(): number | null;
  /** Once no connection of this process is open any more. */
  close(): void;
}

/**
 * The index of the write-ahead log begins with its header twice, of 48 bytes each, the counter at the ninth:
 * https://sqlite.org/walformat.html. Whoever commits writes the second first, so that two that differ are being written.
 */
const headerBytes = 48;
const counterAt = 8;
const initializedAt = 12;

interface OpenIndex {
  readonly descriptor: number;
  users: number;
}

/**
 * To close a file takes the locks off it that SQLite holds for this process, whoever had opened it: all who read the same
 * index share one descriptor, which the last of them closes.
 */
const open = new Map<string, OpenIndex>();

export function commitCounter(file: string): CommitCounter {
  const path = `${file}-shm`;
  const headers = Buffer.alloc(2 * headerBytes);
  let index: OpenIndex | null = null;

  return {
    read() {
      // Where all connections were closed meanwhile, there is another one by now.
      if (index && !isThere(index)) leave();
      index ??= openIndex(path);
      if (!index || readSync(index.descriptor, headers, 0, headers.length, 0) < headers.length) return null;
      const isWhole = headers.compare(headers, headerBytes, headers.length, 0, headerBytes) === 0;
      return isWhole && headers[initializedAt] === 1 ? headers.readUInt32LE(counterAt) : null;
    },
    close: leave,
  };

  function leave(): void {
    if (!index) return;
    index.users -= 1;
    if (index.users === 0) closeIndex(path, index);
    index = null;
  }
}

function isThere({ descriptor }: OpenIndex): boolean {
  return fstatSync(descriptor).nlink > 0;
}

function openIndex(path: string): OpenIndex | null {
  const present = open.get(path);
  if (present && isThere(present)) {
    present.users += 1;
    return present;
  }
  const descriptor = opened(path);
  if (descriptor === null) return null;
  const index = { descriptor, users: 1 };
  open.set(path, index);
  return index;
}

function opened(path: string): number | null {
  try {
    return openSync(path, 'r');
  } catch {
    // It is made with the first connection; without it everything is read anew.
    return null;
  }
}

function closeIndex(path: string, index: OpenIndex): void {
  if (open.get(path) === index) open.delete(path);
  closeSync(index.descriptor);
}
