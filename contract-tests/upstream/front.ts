// The HTTP front: control endpoints for tests, and the vendors' paths for everyone else.
import { once } from 'node:events';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { anthropicMessages } from './anthropic-messages.ts';
import { readMessagesRequest } from './anthropic-messages-request.ts';
import { chatCompletions } from './chat-completions.ts';
import { type Delivery, deliver, sendJson, sendRefusal } from './delivery.ts';
import { type Dialect, Refusal } from './dialect.ts';
import { inputTokens } from './prompt.ts';
import { closeRecord, createRequestLog, type RequestLog } from './requests.ts';
import { createResponses } from './responses.ts';
import { parseScript, type Script } from './script.ts';

/** Largest accepted body; Anthropic refuses more than this, and nobody needs more here. */
const bodyLimit = 32 * 1024 * 1024;
/** Listed when the script names no models; any model is answered then. */
const modelsWhenNotScripted = ['scripted-large', 'scripted-small'];

interface Front {
  script: Script;
  log: RequestLog;
  /** Replaced each time that the held answers are released. */
  hold: PromiseWithResolvers<void>;
  responses: Dialect;
}

/** Serves one script until a test replaces it with `PUT /_script`. */
export function createFront(script: Script): RequestListener {
  const front: Front = {
    script,
    log: createRequestLog(),
    hold: Promise.withResolvers<void>(),
    responses: createResponses(),
  };
  return (request, response) => {
    const handled = pathOf(request).startsWith('/_')
      ? control(front, request, response)
      : play(front, request, response);
    handled.catch((error: unknown) => {
      console.error(error);
      response.destroy();
    });
  };
}

async function control(front: Front, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const send = (status: number, body: unknown) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const actions: Record<string, () => Promise<void> | void> = {
    'PUT /_script': async () => {
      try {
        front.script = parseScript(JSON.parse(await readBody(request)));
        send(200, { ok: true });
      } catch (error) {
        send(400, { error: String(error) });
      }
    },
    'GET /_requests': () => send(200, { requests: front.log.all() }),
    'DELETE /_requests': () => {
      front.log.clear();
      send(200, { ok: true });
    },
    'POST /_release': () => {
      front.hold.resolve();
      front.hold = Promise.withResolvers<void>();
      send(200, { ok: true });
    },
  };
  const action = actions[`${request.method} ${pathOf(request)}`];
  if (action === undefined) send(404, { error: `Control endpoints: ${Object.keys(actions).join(', ')}` });
  else await action();
}

async function play(front: Front, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const record = front.log.open(request.method ?? '', request.url ?? '', request.headers);
  const gone = new AbortController();
  response.once('finish', () => closeRecord(record, 'finished'));
  response.once('close', () => {
    closeRecord(record, 'aborted');
    gone.abort();
  });
  const dialect = dialectOf(front, request);
  const requestId = dialect.newRequestId();
  const { promise } = front.hold;
  const delivery: Delivery = {
    dialect,
    response,
    record,
    gone: gone.signal,
    released: () => promise,
    requestId,
  };
  try {
    await answer(front, request, delivery);
  } catch (error) {
    if (gone.signal.aborted) return;
    if (!(error instanceof Refusal)) throw error;
    sendRefusal(delivery, error);
  }
}

async function answer(front: Front, request: IncomingMessage, delivery: Delivery): Promise<void> {
  const { dialect, record } = delivery;
  const text = await readBody(request);
  record.body = jsonOr(text);
  const apiKey = dialect.apiKey(request.headers);
  if (apiKey === undefined) throw noKey(dialect);
  const path = pathOf(request);
  if (path === '/v1/models' || path.startsWith('/v1/models/')) return sendModels(front, request, delivery);
  if (!posts.includes(path)) throw new Refusal(404, `Not found: ${path}`, { code: null });
  if (request.method !== 'POST') throw new Refusal(405, `Method ${request.method} is not allowed here.`);
  const body = parsedBody(request, text);
  if (path === '/v1/messages/count_tokens') {
    const { prompt } = readMessagesRequest(body, request.headers, 'count_tokens');
    return sendJson(delivery, { input_tokens: inputTokens(prompt) });
  }
  const call = dialect.read(body, request.headers);
  refuseUnknownModel(front, call.prompt.model);
  const verdict = front.script.decide(call.prompt, apiKey);
  if (verdict === undefined)
    throw new Refusal(400, 'The script of this upstream has no rule for this request.');
  record.rule = verdict.rule;
  await deliver(delivery, call, verdict);
}

const posts = ['/v1/chat/completions', '/v1/responses', '/v1/messages', '/v1/messages/count_tokens'];

/** The path settles the dialect, except that of the model list, where this vendor's headers do. */
function dialectOf(front: Front, request: IncomingMessage): Dialect {
  const path = pathOf(request);
  if (path.startsWith('/v1/messages')) return anthropicMessages;
  if (path.startsWith('/v1/responses')) return front.responses;
  const { headers } = request;
  const anthropic = headers['anthropic-version'] !== undefined || headers['x-api-key'] !== undefined;
  return anthropic && !path.startsWith('/v1/chat') ? anthropicMessages : chatCompletions;
}

function noKey(dialect: Dialect): Refusal {
  if (dialect.name === 'anthropic_messages') return new Refusal(401, 'x-api-key header is required');
  const message =
    "You didn't provide an API key. You need to provide your API key in an Authorization header.";
  return new Refusal(401, message, { code: null });
}

function sendModels(front: Front, request: IncomingMessage, delivery: Delivery): void {
  if (request.method !== 'GET') throw new Refusal(405, `Method ${request.method} is not allowed here.`);
  const ids = front.script.models ?? modelsWhenNotScripted;
  const id = decodeURIComponent(pathOf(request).slice('/v1/models/'.length));
  if (id !== '') refuseUnknownModel(front, id);
  sendJson(delivery, id === '' ? delivery.dialect.modelList(ids) : delivery.dialect.model(id));
}

function refuseUnknownModel(front: Front, model: string): void {
  if (front.script.models?.includes(model) ?? true) return;
  throw new Refusal(404, `The model '${model}' does not exist or you do not have access to it.`);
}

function pathOf(request: IncomingMessage): string {
  return (request.url ?? '').replace(/\?.*/, '');
}

async function readBody(request: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  request.on('data', (part: Buffer) => {
    size += part.length;
    if (size <= bodyLimit) parts.push(part);
  });
  await once(request, 'end');
  if (size > bodyLimit) throw new Refusal(413, 'Request exceeds the maximum size');
  return Buffer.concat(parts).toString();
}

function jsonOr(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function parsedBody(request: IncomingMessage, text: string): unknown {
  if (!/^application\/json\b/.test(request.headers['content-type'] ?? '')) {
    throw new Refusal(400, 'The content-type must be application/json.');
  }
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Refusal(400, `We could not parse the JSON body of your request: ${String(error)}`);
  }
}
