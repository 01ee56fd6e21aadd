/** What the head of a request says of the body that is to come. */
import type { IncomingMessage } from 'node:http';

/** Whether the request announces a body. An announced one may still turn out to be empty. */
export function announcesBody(request: IncomingMessage): boolean {
  return request.headers['transfer-encoding'] !== undefined || declaredLength(request) > 0;
}

/** In bytes; 0 where it is not told. */
export function declaredLength(request: IncomingMessage): number {
  return Number(request.headers['content-length'] ?? 0);
}
