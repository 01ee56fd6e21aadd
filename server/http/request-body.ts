/** Reads the body of a request as its operation declares it, or refuses it. */
import type { Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import { announcesBody } from './announced-body.ts';
import { readBytes } from './body.ts';
import type { Exchange } from './exchange.ts';
import { readFile, readForm } from './form.ts';
import { readJson } from './json.ts';
import { requireMediaType } from './media-type.ts';

/** The JSON value of the body, or the parts of a form; undefined where none came. */
export async function readBody(exchange: Exchange, route: Route): Promise<unknown> {
  const { request, response } = exchange;
  if (!announcesBody(request) && !isEmptyFile(exchange, route)) return undefined;
  if (route.bodyLimit === null) {
    // An empty chunked body is none; one byte of another is refused.
    await readBytes(request, response, 0, unexpectedBody);
    return undefined;
  }
  const type = requireMediaType(request, route);
  if (type === bytes) return readFile(exchange, route.bodyLimit, tooLarge);
  if (type === 'multipart/form-data')
    return readForm(exchange, route, { limit: route.bodyLimit, excess: tooLarge });
  const read = await readBytes(request, response, route.bodyLimit, tooLarge);
  return read.length === 0 ? undefined : readJson(read, route);
}

/** Bytes of which there are none are bytes all the same, where somebody says that this is what comes. */
function isEmptyFile({ request }: Exchange, { requestTypes }: Route): boolean {
  const [only] = requestTypes;
  return only === bytes && request.headers['content-type'] !== undefined;
}

const bytes = 'application/octet-stream';

function tooLarge(limit: number): Problem {
  return new Problem('body_too_large', `The body may have at most ${limit} bytes after decompression.`);
}

/** What is not read is not obeyed, and a caller who sends something means it. */
function unexpectedBody(): Problem {
  const message = 'This operation takes no body; send none.';
  return new Problem('invalid_request', message, {
    errors: [{ in: 'body', pointer: '', message, code: 'unexpected' }],
  });
}
