/** Writes the route table: all that the server enforces from the contract before a handler runs. */
import { join } from 'node:path';
import {
  type Contract,
  type Operation,
  operationsOf,
  type PlacedOperation,
  type RateClass,
  resolve,
} from './contract.ts';
import { header, writeIfChanged } from './output.ts';

const rateClasses: readonly RateClass[] = ['read', 'write', 'run', 'login', 'none'];

const declarations = `
/**
 * Who may call an operation. \`scope\` limits API keys; \`resource\` names what ownership is checked against in the query,
 * and \`role\` is the least that the caller needs where that belongs.
 */
export interface Access {
  readonly allow: 'public' | 'principal' | 'login' | 'operator';
  readonly scope?: Scope;
  readonly resource?: string;
  readonly role?: Role;
}

/** How often somebody may call, by kind of operation; \`none\` is never limited. */
export type RateClass = ${rateClasses.map((name) => `'${name}'`).join(' | ')};

/** One operation, as the server mounts it. */
export interface Route {
  readonly operationId: OperationId;
  readonly family: keyof Families;
  readonly method: 'get' | 'post' | 'put' | 'patch' | 'delete';
  /** The path as the contract writes it, with {parameters} in braces. */
  readonly path: string;
  readonly access: Access;
  /** The security schemes that may carry the credential. */
  readonly credentials: readonly ('bearerAuth' | 'apiKeyAuth')[];
  /** The most bytes a body may have after inflation; null where the operation takes none. */
  readonly bodyLimit: number | null;
  /** The most values, at whatever depth, that a body in JSON may hold. */
  readonly bodyValues: number;
  /** The ways to where a body may hold members of any name; \`*\` stands for each member or item. */
  readonly bodyNames: readonly (readonly string[])[];
  /** What it counts as where the server limits how often somebody may call. */
  readonly rateClass: RateClass;
  /**
   * What an \`Idempotency-Key\` guards: a resource, made in one transaction; a run; an answer that is kept once it is there.
   * Null where the operation takes none.
   */
  readonly idempotent: 'resource' | 'run' | 'answer' | 'file' | null;
  /** The media types a body may have. */
  readonly requestTypes: readonly string[];
  /** Whether parameters pass unseen that the contract does not know: others write the query. */
  readonly openQuery: boolean;
  /** The media types of the success responses. */
  readonly responseTypes: readonly string[];
}
`;

/** Writes server/contract/routes.ts. */
export async function generateRoutes(root: string, contract: Contract): Promise<void> {
  const placed = operationsOf(contract);
  const families = [...new Set(placed.map(({ operation }) => familyOf(operation)))].sort();
  const text = [
    header('openapi'),
    "import type { operations, Role, Scope } from './api.ts';\n\n",
    '/** Every operation of the contract. */\nexport type OperationId = keyof operations;\n\n',
    '/** The operations of each family: one file of handlers a family. */\nexport interface Families {\n',
    ...families.map((family) => `  '${family}': ${idsOf(placed, family)};\n`),
    '}\n\n/** The operations that need no credential. */\n',
    `export type PublicOperation = ${publicIds(placed)};\n`,
    declarations,
    '\nexport const routes: readonly Route[] = ',
    `${JSON.stringify(
      placed.map((place) => routeOf(contract, place)),
      null,
      2,
    )};\n`,
  ].join('');
  await writeIfChanged(join(root, 'server/contract/routes.ts'), text);
}

function familyOf(operation: Operation): string {
  const [family] = operation.tags;
  if (!family) throw new Error(`${operation.operationId} has no tag, so no family`);
  return family;
}

function idsOf(placed: readonly PlacedOperation[], family: string): string {
  return placed
    .filter(({ operation }) => familyOf(operation) === family)
    .map(({ operation }) => `'${operation.operationId}'`)
    .join(' | ');
}

function publicIds(placed: readonly PlacedOperation[]): string {
  return placed
    .filter(({ operation }) => operation['x-access'].allow === 'public')
    .map(({ operation }) => `'${operation.operationId}'`)
    .join(' | ');
}

/** Few requests need as many; a validator that collects every error would take seconds over a million. */
const commonBodyValues = 100_000;

function routeOf(contract: Contract, { path, method, operation }: PlacedOperation) {
  const access = operation['x-access'];
  if (!access) throw new Error(`${operation.operationId} does not say who may call it (x-access)`);
  if (operation.requestBody && !operation['x-body-limit'])
    throw new Error(`${operation.operationId} takes a body and names no x-body-limit`);
  return {
    operationId: operation.operationId,
    family: familyOf(operation),
    method,
    path,
    access,
    credentials: credentialsOf(contract, operation),
    bodyLimit: operation['x-body-limit'] ?? null,
    bodyValues: operation['x-body-values'] ?? commonBodyValues,
    bodyNames: (operation['x-body-names'] ?? []).map((way) => way.split('/').slice(1)),
    rateClass: rateClassOf(operation, method),
    idempotent: operation['x-idempotent'] ?? null,
    requestTypes: Object.keys(operation.requestBody?.content ?? {}),
    openQuery: operation['x-open-query'] ?? false,
    responseTypes: successTypesOf(contract, operation),
  };
}

/** Only what is neither plain reading nor plain writing says so itself. */
function rateClassOf(operation: Operation, method: PlacedOperation['method']): RateClass {
  const named = operation['x-rate-class'] ?? (method === 'get' ? 'read' : 'write');
  if (rateClasses.includes(named)) return named;
  throw new Error(`${operation.operationId} has the x-rate-class ${named}, which there is none of`);
}

function credentialsOf(contract: Contract, operation: Operation): string[] {
  const declared =
    'security' in operation ? operation.security : 'security' in contract ? contract.security : [];
  return (declared as Record<string, unknown>[]).flatMap((scheme) => Object.keys(scheme)); // OpenAPI's own shape
}

function successTypesOf(contract: Contract, operation: Operation): string[] {
  const types = Object.entries(operation.responses)
    .filter(([status]) => status.startsWith('2'))
    .flatMap(([, response]) => Object.keys(resolve(contract, response).content ?? {}));
  return [...new Set(types)];
}
