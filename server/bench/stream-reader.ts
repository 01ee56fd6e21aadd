/** Reads streams of the server and of the relay as cheaply as can be, and counts what arrives. */
import { createHash } from 'node:crypto';
import { Agent, type IncomingMessage, request } from 'node:http';

/** One connection for each stream, none kept: what stays open afterwards is the server's doing. */
const agent = new Agent({ keepAlive: false, maxSockets: Number.POSITIVE_INFINITY });

/** How a stream went. */
export interface StreamRead {
  readonly status: number;
  readonly retryAfter: string | undefined;
  readonly events: number;
  /** Whether the numbers went up by one from 1 to the end. */
  readonly gapless: boolean;
  /** The names of the last events: exactly one. */
  readonly ends: readonly string[];
  readonly textHash: string;
  /** As the first event tells it; empty where none does. */
  readonly runId: string;
}

export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex');

export const post = (url: string, body: object, token = '') => open('POST', url, token, body);

/** Asks, and hands over the answer once its headers are there. */
export function open(method: string, url: string, token: string, body?: object): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const asked = request(url, { agent, method, headers });
    asked.on('response', resolve).on('error', reject);
    asked.end(body && JSON.stringify(body));
  });
}

/** Reads an answer to its end. */
export async function readStream(answer: IncomingMessage): Promise<StreamRead> {
  let events = 0;
  let gapless = true;
  let runId = '';
  const ends: string[] = [];
  let text = '';
  let rest = '';
  answer.setEncoding('utf8');
  for await (const piece of answer as AsyncIterable<string>) {
    const frames = (rest + piece).split('\n\n');
    rest = frames.pop() ?? '';
    for (const frame of frames) {
      if (frame.startsWith(':')) continue;
      events += 1;
      const id = /^id: (\d+)/.exec(frame)?.[1];
      if (id !== undefined && Number(id) !== events) gapless = false;
      runId ||= /"run_id":"(\w+)"/.exec(frame)?.[1] ?? '';
      const name = /^event: (done|error)$/m.exec(frame)?.[1];
      if (name) ends.push(name);
      text += textIn(frame);
    }
  }
  return {
    status: answer.statusCode ?? 0,
    retryAfter: answer.headers['retry-after'],
    ...{ events, gapless, ends, textHash: hashOf(text), runId },
  };
}

function textIn(frame: string): string {
  const at = frame.indexOf('data: {"type":"text_delta"');
  if (at < 0) return '';
  const { text } = JSON.parse(frame.slice(at + 'data: '.length)) as { text: string }; // as the contract has it
  return text;
}
