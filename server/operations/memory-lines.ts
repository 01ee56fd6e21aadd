/** Reads memories from JSON Lines: each for itself, so that what is wrong with one keeps no other. */
import { isUtf8 } from 'node:buffer';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { MemoryCreate, MemoryImportResult, MemoryLineError } from '../contract/api.ts';
import contract from '../contract/openapi.json' with { type: 'json' };
import { Problem } from '../problem.ts';

const mostLines = 10_000;
/** The longest content, with every sign of it written as an escape, and what stands around it. */
const longestLine = 64 * 1024;
const mostErrors = 100;

type Create = (memory: MemoryCreate) => Promise<unknown>;

/** `workspaceId` counts for all lines that belong to a workspace. */
export async function importLines(
  content: AsyncIterable<Uint8Array>,
  workspaceId: string | undefined,
  create: Create,
): Promise<MemoryImportResult> {
  const errors: MemoryLineError[] = [];
  const result = { lines: 0, created: 0, duplicates: 0, failed: 0, errors };
  for await (const { line, bytes: read } of linesIn(content)) {
    const bytes = line === 1 && read.subarray(0, 3).equals(byteOrderMark) ? read.subarray(3) : read;
    if (isBlank(bytes)) continue;
    // The rest is read all the same: whoever sends it hears what became of it.
    result.lines += 1;
    const problem = await refusalOf(async () => {
      if (result.lines > mostLines) throw tooMany();
      await create(memoryIn(bytes, workspaceId));
    });
    if (problem === null) result.created += 1;
    else if (problem.code === 'duplicate') result.duplicates += 1;
    else {
      result.failed += 1;
      if (errors.length < mostErrors) errors.push({ line, code: problem.code, message: problem.message });
    }
  }
  return result;
}

/** What programs of Windows put before the first line. */
const byteOrderMark = Buffer.from('\ufeff');

function isBlank(bytes: Buffer): boolean {
  return bytes.every((byte) => byte === 0x20 || byte === 0x09 || byte === 0x0d);
}

async function refusalOf(work: () => Promise<void>): Promise<Problem | null> {
  try {
    await work();
    return null;
  } catch (error) {
    // What has nothing to do with the line ends the import.
    if (error instanceof Problem && error.code !== 'database_unavailable' && error.code !== 'storage_full')
      return error;
    throw error;
  }
}

interface Line {
  /** From 1. */
  readonly line: number;
  readonly bytes: Buffer;
}

const newline = 0x0a;

/** Never more than one line and one piece of the body are held. A line that is too long is cut, and told as such. */
async function* linesIn(content: AsyncIterable<Uint8Array>): AsyncGenerator<Line> {
  let line = 1;
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of content) {
    let start = 0;
    for (let end = piece.indexOf(newline); end >= 0; end = piece.indexOf(newline, start)) {
      yield { line, bytes: extended(rest, piece.subarray(start, end)) };
      line += 1;
      rest = Buffer.alloc(0);
      start = end + 1;
    }
    rest = extended(rest, piece.subarray(start));
  }
  yield { line, bytes: rest };
}

function extended(rest: Buffer, more: Uint8Array): Buffer {
  return Buffer.concat([rest, more.subarray(0, longestLine + 1 - rest.length)]);
}

/** What an export has besides, and the service makes anew. */
const left = new Set(['id', 'organization_id', 'source', 'author', 'version', 'created_at', 'updated_at']);

function memoryIn(bytes: Buffer, workspaceId: string | undefined): MemoryCreate {
  if (bytes.length > longestLine) throw wrong(`the line is longer than ${longestLine} bytes`);
  if (!isUtf8(bytes)) throw new Problem('invalid_encoding', 'the line is not UTF-8');
  const given = objectIn(bytes.toString());
  const members = Object.entries(given).filter(([name, value]) => !left.has(name) && value !== null);
  const memory = Object.fromEntries(members);
  if (workspaceId !== undefined && (memory.scope === 'workspace' || memory.scope === 'agent'))
    memory.workspace_id = workspaceId;
  // An export says of which workspace a session is; to name the session is enough.
  if (memory.scope === 'session') delete memory.workspace_id;
  const validate = lineValidator();
  if (!validate(memory)) {
    const [error] = validate.errors ?? [];
    const place = error?.instancePath ?? '';
    const member = error?.params.missingProperty ?? error?.params.additionalProperty;
    const at = member === undefined ? place : `${place}/${member}`;
    throw wrong(`${at} ${sayingOf(error?.keyword, error?.message)}`.trim());
  }
  return memory as unknown as MemoryCreate; // it matches the contract
}

function sayingOf(keyword: string | undefined, message: string | undefined): string {
  if (keyword === 'required') return 'is required';
  return keyword === 'additionalProperties' ? 'is not a known member' : (message ?? 'is wrong');
}

function objectIn(text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  } catch (cause) {
    throw new Problem('invalid_json', 'the line is not JSON', { cause });
  }
  throw wrong('the line is no object');
}

function wrong(message: string): Problem {
  return new Problem('invalid_request', message);
}

function tooMany(): Problem {
  return wrong(`an import has at most ${mostLines} lines; send the rest as another`);
}

let compiled: ValidateFunction | undefined;

/** Compiled when the first line comes: to take the contract in costs more than a start should. */
function lineValidator(): ValidateFunction {
  if (compiled) return compiled;
  const ajv = new Ajv2020({ strict: false, validateSchema: false });
  formats.default(ajv);
  ajv.addSchema({ $id: 'contract:', ...contract });
  compiled = ajv.compile({ $ref: 'contract:#/components/schemas/MemoryCreate' });
  return compiled;
}
