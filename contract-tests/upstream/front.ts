// The HTTP front: control endpoints for tests, and the vendors' paths for everyone else.
import { once } from 'node:events';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { type Delivery, deliver, deliverList, sendJson, sendRefusal } from './delivery.ts';
import { type Dialect, Refusal } from './dialect.ts';
import { readForm, shownForm } from './form.ts';
import { closeRecord, createRequestLog, type RequestLog, type RequestRecord } from './requests.ts';
import { createResponses } from './responses.ts';
import { type Route, routeOf } from './routes.ts';
import { parseScript, type Script } from './script.ts';
import { searchAnswer } from './search-engines.ts';
import { grant, refusal } from './service-account.ts';

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
        front.script = parseScript(JSON.parse(String(await readBody(request))));
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
  if (pathOf(request) === '/token') return sendToken(front, request, response, record);
  if (pathOf(request).startsWith('/files/')) return sendFile(request, response, record);
  const found = searchAnswer(urlOf(request), request.headers);
  if (found) {
    record.status = found.status;
    response.writeHead(found.status, { 'content-type': 'application/json' }).end(JSON.stringify(found.body));
    return;
  }
  const route = routeOf(urlOf(request), request.headers, front.responses);
  const { dialect } = route;
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
    await answer(front, request, route, delivery);
  } catch (error) {
    if (gone.signal.aborted) return;
    if (!(error instanceof Refusal)) throw error;
    sendRefusal(delivery, error);
  }
}

async function answer(
  front: Front,
  request: IncomingMessage,
  { ask }: Route,
  delivery: Delivery,
): Promise<void> {
  const { dialect, record } = delivery;
  const bytes = await readBody(request);
  const form = dialect.takesForm ? await readForm(bytes, request.headers) : null;
  const text = form ? '' : bytes.toString();
  record.body = form ? shownForm(form) : jsonOr(text);
  const apiKey = dialect.apiKey(request.headers);
  if (apiKey === undefined) throw dialect.noKey();
  if (ask.kind === 'refused') throw ask.refusal;
  const method = ask.kind === 'models' ? 'GET' : 'POST';
  if (request.method !== method) throw new Refusal(405, `Method ${request.method} is not allowed here.`);
  if (ask.kind === 'models') return sendModels(front, ask.id, urlOf(request).searchParams, delivery);
  const body = form ?? parsedBody(request, text);
  if (ask.kind === 'count_tokens')
    return sendJson(delivery, dialect.count?.(body, request.headers, ask.place));
  const call = dialect.read(body, request.headers, ask.place);
  refuseUnknownModel(front, call.prompt.model);
  const verdict = front.script.decide(call.prompt, apiKey);
  if (verdict === undefined)
    throw new Refusal(400, 'The script of this upstream has no rule for this request.');
  record.rule = verdict.rule;
  await deliver(delivery, call, verdict);
}

async function sendModels(
  front: Front,
  id: string,
  query: URLSearchParams,
  delivery: Delivery,
): Promise<void> {
  const { models: ids = modelsWhenNotScripted, list } = front.script;
  if (id !== '') {
    refuseUnknownModel(front, id);
    return sendJson(delivery, delivery.dialect.model(id));
  }
  // Each vendor says in its own way which model the page before ended with.
  const start = ids.indexOf(query.get('after_id') ?? query.get('pageToken') ?? '') + 1;
  // Those who are not asked for pages have none.
  const asked = query.get('limit') ?? query.get('pageSize');
  const most = delivery.dialect.pagesUnasked ? list.page_size : ids.length;
  const size = asked === null ? most : Math.min(Number(asked), list.page_size);
  const page = ids.slice(start, start + size);
  const last = page.at(-1);
  const next = last !== undefined && last !== ids.at(-1) ? last : null;
  await deliverList(delivery, delivery.dialect.modelList(page, next), list.fail);
}

async function sendToken(
  { script }: Front,
  request: IncomingMessage,
  response: ServerResponse,
  record: RequestRecord,
): Promise<void> {
  const form = String(await readBody(request));
  record.body = form;
  const { expires_in, status } = script.token;
  const { status: code, body } =
    status === undefined
      ? grant(form, `http://${request.headers.host}/token`, expires_in)
      : refusal('invalid_grant', 'As scripted.', status);
  record.status = code;
  response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** A picture whose address an answer gave; its bytes are in it. */
function sendFile(request: IncomingMessage, response: ServerResponse, record: RequestRecord): void {
  record.status = 200;
  const bytes = Buffer.from(pathOf(request).slice('/files/'.length), 'base64url');
  response.writeHead(200, { 'content-type': 'image/png' }).end(bytes);
}

function refuseUnknownModel(front: Front, model: string): void {
  if (front.script.models?.includes(model) ?? true) return;
  throw new Refusal(404, `The model '${model}' does not exist or you do not have access to it.`);
}

function urlOf(request: IncomingMessage): URL {
  return new URL(request.url ?? '', `http://${request.headers.host}`);
}

function pathOf(request: IncomingMessage): string {
  return (request.url ?? '').replace(/\?.*/, '');
}

async function readBody(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  request.on('data', (part: Buffer) => {
    size += part.length;
    if (size <= bodyLimit) parts.push(part);
  });
  await once(request, 'end');
  if (size > bodyLimit) throw new Refusal(413, 'Request exceeds the maximum size');
  return Buffer.concat(parts);
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
