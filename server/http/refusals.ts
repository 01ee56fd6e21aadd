/** Which refusals the audit log is told of: credentials that do not hold, guesses, rights that lack, ids that are not theirs. */
import type { Route } from '../contract/routes.ts';
import type { Problem } from '../problem.ts';
import { type Exchange, originOf } from './exchange.ts';
import type { Refusal } from './ports.ts';

/** What is to be recorded; null where the refusal says nothing of anybody's rights. */
export function refusalOf(exchange: Exchange, problem: Problem): Refusal | null {
  const { route, caller } = exchange;
  if (!route || !isRefusal(problem, exchange, route)) return null;
  const login = route.access.allow === 'public' && problem.status !== 403;
  return {
    actor: { userId: caller?.userId ?? null, origin: caller?.origin ?? originOf(exchange) },
    action: login ? 'login.refuse' : 'access.refuse',
    target: problem.concerns ?? targetOf(exchange, route),
    reason: problem.code,
    operation: route.operationId,
  };
}

function isRefusal({ status, code, concerns }: Problem, { caller }: Exchange, route: Route): boolean {
  if (concerns !== undefined || status === 403 || code === 'too_many_attempts') return true;
  // Who sends no credential, or not yet the second one, tries nothing.
  if (status === 401) return code !== 'credential_missing' && code !== 'otp_required';
  return code === 'not_found' && caller !== null && parameterOf(route.path) !== null;
}

/** The innermost thing that the path names, else the operation itself. */
function targetOf({ path }: Exchange, route: Route): Refusal['target'] {
  const parameter = parameterOf(route.path);
  const id = parameter && path.split('/')[parameter.index];
  if (!parameter || !id) return { type: 'operation', id: route.operationId };
  return { type: parameter.name === 'key' ? 'api_key' : parameter.name, id };
}

function parameterOf(path: string): { readonly index: number; readonly name: string } | null {
  const segments = path.split('/');
  const index = segments.findLastIndex((segment) => segment.startsWith('{'));
  const name = /^\{(\w+?)(_id)?\}$/.exec(segments[index] ?? '')?.[1];
  return name === undefined ? null : { index, name };
}
