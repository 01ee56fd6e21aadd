// The tool that shows a part of a text file with line numbers.
import { createHash } from 'node:crypto';
import type { Stats } from 'node:fs';
import { type FileHandle, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { z } from 'zod';
import { defineTool, success } from './define-tool.ts';
import { holdsText, MAX_EDITABLE_BYTES } from './file-content.ts';
import { missingError } from './missing-path.ts';
import { type Tool, type ToolContext, ToolInputError, type ToolOutput } from './tool.ts';
import {
  openForReading,
  type PathRules,
  type ResolvedPath,
  readNeed,
  resolveAgain,
  resolvePath,
} from './workspace-path.ts';

const DEFAULT_LINES = 200;
const MAX_LINE_LENGTH = 2000;
const MAX_OUTPUT_LENGTH = 200 * 1024;
const CHUNK_BYTES = 64 * 1024;

const input = z.strictObject({
  file_path: z.string().min(1).describe('The file, relative to the workspace or absolute'),
  offset: z.int().min(0).default(1).describe('The first line to show, counted from 1'),
  limit: z.int().min(1).default(DEFAULT_LINES).describe('How many lines to show'),
});

type View = z.output<typeof input>;

/** Builds the `view` tool. */
export function viewTool(rules: PathRules): Tool {
  return defineTool({
    name: 'view',
    description:
      `Shows a text file with line numbers: ${DEFAULT_LINES} lines from the first unless offset and limit say ` +
      `otherwise. Lines over ${MAX_LINE_LENGTH} characters are cut, at most 200 KB are shown, binary files are refused.`,
    idempotent: true,
    onlyReads: true,
    needsPermission: false,
    input,
    async prepare(view, context) {
      const path = await resolvePath(view.file_path, context.workspacePath);
      const need = {
        action: 'read',
        folder: dirname(path.real),
        file: path.real,
        params: { ...view },
      } as const;
      const permission = readNeed(rules, path, need, context);
      // Outside, even the names nearby are only told after somebody allowed it.
      if (!permission) await assertFile(path);
      return { permission, run: () => show(path, view, context) };
    },
  });
}

async function show(path: ResolvedPath, view: View, context: ToolContext): Promise<ToolOutput> {
  await resolveAgain(path);
  await assertFile(path);
  const handle = await openForReading(path);
  try {
    const stats = await handle.stat();
    await assertText(handle, stats, path);
    const page = await readPage(handle, stats, view, context.signal);
    if (page.sha256) {
      context.files.remember(path.real, { sha256: page.sha256, mtimeMs: stats.mtimeMs });
      context.noticeRead(path.real);
    }
    return success(render(page, view, path), {
      path: path.shown,
      bytes: stats.size,
      lines: page.lines.length,
    });
  } finally {
    await handle.close();
  }
}

interface Page {
  readonly lines: readonly string[];
  /** Lines seen; all of the file's when `complete`. */
  readonly seen: number;
  readonly complete: boolean;
  readonly full: boolean;
  /** Hash of the whole file; null where it is too large ever to be edited. */
  readonly sha256: string | null;
}

/** Reads in chunks and keeps only what is shown, so that the size of the file or of one line does not matter. */
async function readPage(handle: FileHandle, stats: Stats, view: View, signal: AbortSignal): Promise<Page> {
  const hash = stats.size <= MAX_EDITABLE_BYTES ? createHash('sha256') : null;
  const collector = new LineCollector(Math.max(1, view.offset), view.limit);
  const decoder = new StringDecoder('utf8');
  const chunk = Buffer.alloc(CHUNK_BYTES);
  for (;;) {
    signal.throwIfAborted();
    const { bytesRead } = await handle.read(chunk, 0, CHUNK_BYTES, null);
    if (bytesRead === 0) break;
    const bytes = chunk.subarray(0, bytesRead);
    hash?.update(bytes);
    collector.push(decoder.write(bytes));
    if (collector.done && !hash) return { ...collector.result(false), sha256: null };
  }
  collector.push(decoder.end());
  return { ...collector.result(true), sha256: hash?.digest('hex') ?? null };
}

class LineCollector {
  readonly #first: number;
  readonly #last: number;
  readonly #lines: string[] = [];
  #current = '';
  #currentLength = 0;
  #number = 1;
  #shownLength = 0;
  #full = false;

  constructor(first: number, limit: number) {
    this.#first = first;
    this.#last = first + limit - 1;
  }

  get done(): boolean {
    return this.#full || this.#number > this.#last;
  }

  push(text: string): void {
    let start = 0;
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      this.#extend(text.slice(start, end));
      this.#finishLine();
      start = end + 1;
    }
    this.#extend(text.slice(start));
  }

  result(complete: boolean): Omit<Page, 'sha256'> {
    if (complete && this.#currentLength > 0) this.#finishLine();
    return { lines: this.#lines, seen: this.#number - 1, complete, full: this.#full };
  }

  #extend(part: string): void {
    this.#currentLength += part.length;
    const room = MAX_LINE_LENGTH + 1 - this.#current.length;
    if (room > 0) this.#current += part.slice(0, room);
  }

  #finishLine(): void {
    if (this.#number >= this.#first && this.#number <= this.#last && !this.#full) this.#keep();
    this.#number += 1;
    this.#current = '';
    this.#currentLength = 0;
  }

  #keep(): void {
    const text = this.#number === 1 ? this.#current.replace(/^\uFEFF/, '') : this.#current;
    const cut = this.#currentLength - MAX_LINE_LENGTH;
    const shown =
      cut > 1 ? `${text.slice(0, MAX_LINE_LENGTH)}… (${cut} more characters)` : text.replace(/\r$/, '');
    const line = `${String(this.#number).padStart(6)}\t${shown}`;
    this.#shownLength += line.length + 1;
    this.#full = this.#shownLength > MAX_OUTPUT_LENGTH;
    if (!this.#full) this.#lines.push(line);
  }
}

function render(page: Page, view: View, path: ResolvedPath): string {
  const first = Math.max(1, view.offset);
  const next = first + page.lines.length;
  if (page.lines.length === 0 && page.seen === 0) return `${path.shown} is empty.`;
  if (page.lines.length === 0)
    return `${path.shown} has only ${page.seen} lines; offset ${first} is behind its end.`;
  const text = page.lines.join('\n');
  if (page.complete && next > page.seen) return text;
  const reason = page.full ? 'Cut at 200 KB' : 'There is more';
  const total = page.complete ? ` of ${page.seen}` : '';
  return `${text}\n(${reason}: shown are lines ${first} to ${next - 1}${total}. Go on with offset ${next}.)`;
}

async function assertText(handle: FileHandle, stats: Stats, path: ResolvedPath): Promise<void> {
  if (await holdsText(handle)) return;
  throw new ToolInputError(
    `${path.shown} is a binary file (${stats.size} bytes) and cannot be shown. Commands such as file, strings or xxd tell of it.`,
  );
}

async function assertFile(path: ResolvedPath): Promise<void> {
  const stats = await stat(path.real).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (stats?.isDirectory()) throw new ToolInputError(`${path.shown} is a folder. Use ls to list it.`);
  if (stats) return;
  throw await missingError(path, 'Use ls or glob to find it.');
}
