/** The log that the servers inside commands write: where it is, its last lines, and what is added to it. */
import { type FileHandle, open, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as sleep } from 'node:timers/promises';

/** The log below a data directory. */
export function logFileIn(dataDirectory: string): string {
  return join(dataDirectory, 'logs/service.log');
}

const blockBytes = 64 * 1024;
const lookMs = 200;

/** Where the last so many lines of a file begin, found from its end: the file may be large. */
async function beginOfTail(handle: FileHandle, lines: number): Promise<number> {
  const { size } = await handle.stat();
  const block = Buffer.alloc(blockBytes);
  // The line break at the very end ends the last line; it begins none.
  let wanted = lines + 1;
  for (let end = size; end > 0; ) {
    const start = Math.max(0, end - blockBytes);
    const { bytesRead } = await handle.read(block, 0, end - start, start);
    for (let at = bytesRead - 1; at >= 0; at -= 1) {
      const breaks = block[at] === 0x0a || (start + at === size - 1 && wanted === lines + 1);
      if (breaks) wanted -= 1;
      if (wanted === 0) return start + at + 1;
    }
    end = start;
  }
  return 0;
}

/** How the log is read. */
export interface LogReading {
  /** How many of the lines that are there. */
  readonly tail: number;
  /** Whether to go on as it grows, until the signal aborts. */
  readonly follow: AbortSignal | null;
}

/** The lines of the log; where it is followed, also those of a file that takes its place, or is not there yet. */
export async function* readLog(file: string, { tail, follow }: LogReading): AsyncGenerator<string> {
  let handle = await openIfThere(file);
  let lines = new LineReader(handle ? await beginOfTail(handle, tail) : 0);
  try {
    for (;;) {
      if (handle) yield* lines.read(handle);
      if (!follow) {
        yield* lines.rest();
        return;
      }
      await sleep(lookMs, undefined, { signal: follow }).catch(() => undefined); // aborted: the loop ends below
      if (follow.aborted) return;
      if (handle && !(await isReplaced(file, handle))) continue;
      const next = await openIfThere(file);
      if (handle && next) yield* lines.read(handle);
      if (next) {
        await handle?.close();
        handle = next;
        lines = new LineReader(0);
      }
    }
  } finally {
    await handle?.close();
  }
}

/** Whole lines from a file that grows. */
class LineReader {
  #position: number;
  #decoder = new StringDecoder('utf8');
  #begun = '';

  constructor(position: number) {
    this.#position = position;
  }

  async *read(handle: FileHandle): AsyncGenerator<string> {
    const { size } = await handle.stat();
    // It was emptied: what is in it now was written since.
    if (size < this.#position) {
      this.#position = 0;
      this.#begun = '';
    }
    const block = Buffer.alloc(blockBytes);
    for (;;) {
      const { bytesRead } = await handle.read(block, 0, blockBytes, this.#position);
      if (bytesRead === 0) return;
      this.#position += bytesRead;
      const lines = (this.#begun + this.#decoder.write(block.subarray(0, bytesRead))).split('\n');
      this.#begun = lines.pop() ?? '';
      yield* lines;
    }
  }

  /** The last line, where no line break ends it. */
  *rest(): Generator<string> {
    if (this.#begun !== '') yield this.#begun;
    this.#begun = '';
  }
}

async function openIfThere(file: string): Promise<FileHandle | null> {
  try {
    return await open(file, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null; // open rejects with nothing else
    throw error;
  }
}

/** Whether the path leads to another file by now; one that is gone may come back. */
async function isReplaced(file: string, handle: FileHandle): Promise<boolean> {
  try {
    const [there, ours] = await Promise.all([stat(file), handle.stat()]);
    return there.ino !== ours.ino || there.dev !== ours.dev;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false; // stat rejects with nothing else
    throw error;
  }
}
