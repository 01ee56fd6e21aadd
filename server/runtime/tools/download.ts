// The tool that saves what a URL gives as a file.
import { createHash, randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, rename, rm } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { z } from 'zod';
import type { Outbound } from '../../outbound/outbound.ts';
import { defineTool, success } from './define-tool.ts';
import { withNote } from './edit.ts';
import { MAX_EDITABLE_BYTES, withFileLock } from './file-content.ts';
import { type Tool, type ToolContext, ToolInputError, type ToolOutput, type UnkeptContent } from './tool.ts';
import { askServer, bodyOf, webUrl } from './web-request.ts';
import {
  assertWritable,
  giveToOwnerOf,
  openForReading,
  openParent,
  type PathRules,
  type ResolvedPath,
  resolveAgain,
  resolvePath,
} from './workspace-path.ts';

const input = z.strictObject({
  url: z.string().min(1).max(4096).describe('The http or https URL'),
  file_path: z.string().min(1).describe('Where to save it, relative to the workspace or absolute'),
  timeout_seconds: z.int().min(1).max(600).default(300).describe('How long it may take in all'),
});

type Download = z.output<typeof input>;

const maxBytes = 100 * 1024 * 1024;

/** Builds the `download` tool. */
export function downloadTool(rules: PathRules, outbound: Outbound): Tool {
  return defineTool({
    name: 'download',
    description:
      'Saves what a URL of the web gives as a file, whatever its type, up to 100 MB, making missing folders. A file ' +
      'that is there already has to be viewed first. It sends no credentials. Use fetch to read a page.',
    idempotent: false,
    needsPermission: true,
    input,
    async prepare(request, context) {
      const url = webUrl(request.url);
      const path = await resolvePath(request.file_path, context.workspacePath);
      assertWritable(rules, path);
      const before = await current(path, context);
      return {
        permission: {
          action: 'download',
          description: `Download ${url.href} ${before ? 'over' : 'to'} ${path.shown}`,
          path: dirname(path.real),
          file: path.real,
          params: { ...request, url: url.href },
        },
        run: () => save(outbound, url, path, request, context),
      };
    },
  });
}

async function save(
  outbound: Outbound,
  url: URL,
  path: ResolvedPath,
  { timeout_seconds }: Download,
  context: ToolContext,
): Promise<ToolOutput> {
  const limits = { maxBytes, totalMs: timeout_seconds * 1000 };
  const response = await askServer(outbound, url, limits, { signal: context.signal, accept: '*/*' });
  const type = response.headers.get('content-type') ?? 'of no named type';
  await resolveAgain(path);
  const { bytes, note } = await receive(response, path, context);
  const said = `Downloaded ${response.url} to ${path.shown} (${bytes} bytes, ${type}).`;
  return success(withNote(said, note), { path: path.shown, url: response.url, bytes, type });
}

/** Into a file beside the target, which then takes its place: no reader ever sees half of it. */
async function receive(
  response: Response,
  path: ResolvedPath,
  context: ToolContext,
): Promise<{ bytes: number; note: string }> {
  const parent = await openParent(path);
  const temporary = parent.entry(`.${randomBytes(8).toString('hex')}.tmp`);
  try {
    const { content, sha256, size, mtimeMs } = await writeBody(response, temporary, parent.handle);
    return await withFileLock(path, async () => {
      const before = await current(path, context);
      context.signal.throwIfAborted();
      await context.recordChange({ path: path.real, before, after: content });
      await rename(temporary, parent.entry(basename(path.real)));
      context.files.remember(path.real, { sha256, mtimeMs });
      return { bytes: size, note: await context.noteAfterChange(path.real) };
    });
  } finally {
    // After the rename it is not there any more.
    await rm(temporary, { force: true });
    await parent.handle.close();
  }
}

interface StoredContent {
  /** What is too large to be kept is only told apart. */
  readonly content: Uint8Array | UnkeptContent;
  readonly sha256: string;
  readonly size: number;
  readonly mtimeMs: number;
}

async function writeBody(response: Response, at: string, folder: FileHandle): Promise<StoredContent> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const handle = await open(at, flags, 0o666);
  try {
    await giveToOwnerOf(folder, handle);
    for await (const chunk of bodyOf(response)) await handle.appendFile(chunk);
    await handle.sync();
    return await storedContent(handle);
  } finally {
    await handle.close();
  }
}

async function storedContent(handle: FileHandle): Promise<StoredContent> {
  const { size, mtimeMs } = await handle.stat();
  const hash = createHash('sha256');
  const kept: Uint8Array[] = [];
  for await (const chunk of handle.createReadStream({ autoClose: false, start: 0 })) {
    hash.update(chunk);
    if (size <= MAX_EDITABLE_BYTES) kept.push(chunk);
  }
  const sha256 = hash.digest('hex');
  return {
    sha256,
    size,
    mtimeMs,
    content: size <= MAX_EDITABLE_BYTES ? Buffer.concat(kept) : { sha256, size },
  };
}

/** What lies at the path, which this session has to know: nothing is overwritten unseen. */
async function current(path: ResolvedPath, context: ToolContext): Promise<StoredContent['content'] | null> {
  const stats = await lstat(path.real).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (!stats) return null;
  if (stats.isDirectory()) throw new ToolInputError(`${path.shown} is a folder; name a file in it.`);
  const known = context.files.recall(path.real);
  if (!known)
    throw new ToolInputError(
      `${path.shown} exists and has not been viewed in this session. View it first, or choose another name.`,
    );
  const handle = await openForReading(path);
  try {
    const { content, sha256 } = await storedContent(handle);
    if (sha256 === known.sha256) return content;
  } finally {
    await handle.close();
  }
  throw new ToolInputError(`${path.shown} has changed since it was last viewed. View it again first.`);
}
