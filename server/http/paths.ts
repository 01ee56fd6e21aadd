/** The paths of the contract and the methods of each: who asks for another method learns which there are. */
import type { Request, Response } from 'express';
import { type Route, routes } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import { preflightHeaders } from './cors.ts';
import type { Exchange } from './exchange.ts';

/** One path, with its operations by method. */
export interface Path {
  /** As Express writes it: `/sessions/:session_id`. */
  readonly pattern: string;
  readonly operations: ReadonlyMap<string, Route>;
  /** What the path answers to, in the order of the Allow header. */
  readonly methods: readonly string[];
}

/** Every path of the contract. */
export const paths: readonly Path[] = [...Map.groupBy(routes, (route) => route.path)].map(
  ([path, operations]) => {
    const methods = operations.map((route) => route.method.toUpperCase());
    return {
      pattern: path.replaceAll(/\{(\w+)\}/g, ':$1'),
      operations: new Map(operations.map((route) => [route.method.toUpperCase(), route])),
      methods: [...methods, ...(methods.includes('GET') ? ['HEAD'] : []), 'OPTIONS'],
    };
  },
);

/** The operation that is called: HEAD is GET without the body. Throws for a method that the path does not know. */
export function operationFor(path: Path, method: string): Route {
  const route = path.operations.get(method === 'HEAD' ? 'GET' : method);
  if (route) return route;
  const allow = path.methods.join(', ');
  throw new Problem('method_not_allowed', `This path knows ${allow}.`, { headers: { Allow: allow } });
}

/** Answers OPTIONS, which asks for what a path knows, and whether a web page may call it. */
export function answerOptions(path: Path, { request, response }: Exchange): void {
  response.setHeader('Allow', path.methods.join(', '));
  if (isAllowedPreflight(request, response)) response.set(preflightHeaders(path.methods));
  response.status(204).end();
}

/** The origin has been judged before; only an allowed one was answered. */
function isAllowedPreflight(request: Request, response: Response): boolean {
  const asked = request.get('access-control-request-method') !== undefined;
  return asked && response.hasHeader('Access-Control-Allow-Origin');
}
