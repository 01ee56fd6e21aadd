/** The pictures and documents of messages: their bytes are kept once for each session, apart from what is said of them. */
import { createHash } from 'node:crypto';
import type { Knex } from 'knex';
import type { Message, MessagePart } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { keepContent, mostKeptBytes, readContent } from './file-contents.ts';

/** Bytes that a model is shown at once: no provider takes more, and the newest ones come first. */
const mostShownBytes = 32 * 1024 * 1024;

interface Owner {
  readonly organization_id: string;
  readonly session_id: string;
}

/** The parts as they are stored, their bytes put aside. The session is locked. Throws Problem where it holds too much. */
export async function putAside(
  sql: Knex.Transaction,
  { organization_id, session_id }: Owner,
  parts: readonly MessagePart[],
): Promise<MessagePart[]> {
  const stored: MessagePart[] = [];
  for (const part of parts) {
    if (part.type !== 'file' || part.data === undefined) {
      stored.push(part);
      continue;
    }
    const { data, ...told } = part;
    const content = Buffer.from(data, 'base64');
    const sha256 = createHash('sha256').update(content).digest('hex');
    const packed = { sha256, size: content.length, compressed: false, content };
    if (!(await keepContent(sql, { organization_id, session_id }, packed))) throw tooMuch();
    stored.push({ ...told, sha256, size: content.length });
  }
  return stored;
}

/** The messages with the bytes of their newest files, as far as a model may be shown them. */
export async function withFiles(
  sql: Knex,
  sessionId: string,
  messages: readonly Message[],
): Promise<Message[]> {
  let left = mostShownBytes;
  const whole: Message[] = [];
  for (const message of messages.toReversed()) {
    const parts: MessagePart[] = [];
    for (const part of message.parts.toReversed()) {
      const size = part.type === 'file' && part.url === undefined ? (part.size ?? 0) : 0;
      if (part.type !== 'file' || part.sha256 === undefined || size > left) parts.unshift(part);
      else {
        left -= size;
        parts.unshift(await withData(sql, sessionId, part));
      }
    }
    whole.unshift({ ...message, parts });
  }
  return whole;
}

type FilePart = Extract<MessagePart, { type: 'file' }>;

async function withData(sql: Knex, sessionId: string, part: FilePart): Promise<FilePart> {
  const content = await readContent(sql, sessionId, part.sha256 ?? '');
  return content ? { ...part, data: Buffer.from(content).toString('base64') } : part;
}

/** What a fork shows of its origin comes along. */
export async function copyFiles(
  sql: Knex.Transaction,
  origin: string,
  fork: Owner,
  parts: readonly MessagePart[],
): Promise<void> {
  for (const part of parts) {
    if (part.type !== 'file' || part.sha256 === undefined) continue;
    const bytes = await readContent(sql, origin, part.sha256);
    if (!bytes) continue;
    const content = Buffer.from(bytes);
    await keepContent(sql, fork, { sha256: part.sha256, size: content.length, compressed: false, content });
  }
}

function tooMuch(): Problem {
  const most = mostKeptBytes / 1024 / 1024;
  return new Problem(
    'body_too_large',
    `The session holds as many pictures, documents and file versions as it may, ${most} MB; go on in another one.`,
  );
}
