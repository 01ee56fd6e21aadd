/** The access table: who may call an operation, as the contract says. */
import type { Access, Route } from '../contract/routes.ts';
import { Problem } from '../problem.ts';
import type { Caller } from './ports.ts';

/** Who may read what a server tells of itself. */
type Openness = 'public' | 'operator' | 'off';

/** What an operator may keep from the public, by the setting that does. */
const switchable: Partial<Record<Route['operationId'], 'metrics' | 'docs'>> = {
  getPrometheusMetrics: 'metrics',
  getDocs: 'docs',
  getOpenapiJson: 'docs',
  getOpenapiYaml: 'docs',
  getSdkOpenapi: 'docs',
  getConfigSchema: 'docs',
};

/** The access that holds on this server: `SERVICE_METRICS` and `SERVICE_DOCS` narrow the operations they are about. */
export function accessOf(route: Route, settings: Readonly<Record<'metrics' | 'docs', Openness>>): Access {
  const subject = switchable[route.operationId];
  if (subject === undefined || settings[subject] === 'public') return route.access;
  if (settings[subject] === 'operator') return { allow: 'operator' };
  throw new Problem(
    'operation_not_found',
    `This is switched off on this server (SERVICE_${subject.toUpperCase()}=off).`,
  );
}

/**
 * Throws where the caller lacks what the operation asks for, and names it. The role that it asks for goes with the caller:
 * where the object belongs is known to the query alone.
 */
export function enforceAccess(access: Access, caller: Caller): Caller {
  if (access.allow === 'login' && caller.credential !== 'login')
    throw new Problem('login_required', 'An API key cannot do this: log in, and send the access token.');
  if (access.allow === 'operator' && !caller.operator)
    throw new Problem('role_required', 'This is for the operator of the installation only.');
  if (access.scope !== undefined && !caller.scopes.has(access.scope))
    throw new Problem('scope_required', `This API key lacks the scope ${access.scope}.`);
  return { ...caller, needs: access.role ?? 'viewer' };
}
