/** Validates requests with express-openapi-validator, one instance for each path, built when it is needed. */
import type { RequestHandler, Response } from 'express';
import { OpenApiValidator } from 'express-openapi-validator/dist/openapi.validator.js';
import { routes } from '../contract/routes.ts';
import { documentOfPath } from './contract-document.ts';

// What the contract lets in is the same for every server of a process, of which tests have many.
const validators = new Map<string, readonly RequestHandler[]>();

/** What the validator is shown of a request: HEAD is GET to it, and it may write where it likes. */
export interface RequestView {
  readonly method: string;
  readonly originalUrl: string;
  readonly path: string;
  readonly baseUrl: string;
  readonly app: { enabled(): boolean; param(): void };
  readonly headers: Record<string, unknown>;
  readonly query: Record<string, unknown>;
  readonly cookies: Record<string, unknown>;
  readonly params: Record<string, unknown>;
  readonly body: unknown;
  /** Written by the validator once it has found the operation. */
  readonly openapi?: unknown;
}

/** Whether the contract refuses it. Types and defaults are filled into what it lets in. */
export async function isRefused(path: string, view: RequestView): Promise<boolean> {
  const steps = validators.get(path) ?? buildValidator(path);
  validators.set(path, steps);
  try {
    for (const step of steps) await take(step, view);
  } catch (error) {
    // Its refusals carry a status; anything else is a fault of ours.
    if (error instanceof Error && 'status' in error && error.status === 400) return true;
    throw error;
  }
  // A path that the validator does not recognise would pass unseen.
  if (view.openapi === undefined) throw new Error(`The validator knows no ${view.method} ${view.path}`);
  return false;
}

function take(step: RequestHandler, view: RequestView): Promise<void> {
  return new Promise((resolve, reject) => {
    const next = (error?: unknown) => (error === undefined ? resolve() : reject(error));
    // The view has every member that the validator's steps touch, and no response is touched.
    void step(view as unknown as Parameters<RequestHandler>[0], {} as Response, next);
  });
}

/**
 * Past the package's own loader: for each document that one compiles the schema of OpenAPI itself, ten times the work of
 * the rest, though the generator has checked the document and nothing is held against that schema.
 */
function buildValidator(path: string): readonly RequestHandler[] {
  const specification = specificationOf(path);
  const validator = new OpenApiValidator({
    apiSpec: specification.apiDoc,
    validateApiSpec: false,
    validateRequests: { allowUnknownQueryParameters: false, coerceTypes: false },
    validateResponses: false,
    // By itself it takes whatever stands for a time, the 31st of June, too.
    ajvFormats: { mode: 'full' },
    validateSecurity: false,
    fileUploader: false,
  });
  // Its own handler type differs from Express 5's in name only.
  return validator.installMiddleware(Promise.resolve(specification)) as readonly RequestHandler[];
}

type Specification = Awaited<Parameters<OpenApiValidator['installMiddleware']>[0]>;

/** The document of a path as the package's loader would hand it on; it writes into the document. */
function specificationOf(path: string): Specification {
  const operations = routes.filter((route) => route.path === path);
  return {
    // The package's types want an OpenAPI document; the generator has checked that it is one.
    apiDoc: structuredClone(documentOfPath(path)) as unknown as Specification['apiDoc'],
    basePaths: [''],
    routes: operations.map(({ method }) => ({
      basePath: '',
      expressRoute: path.replaceAll(/\{(\w+)\}/g, ':$1'),
      openApiRoute: path,
      method: method.toUpperCase(),
      pathParams: [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name),
    })),
    // It tells the documents of answers apart, and no answers are validated.
    serial: 0,
  };
}
