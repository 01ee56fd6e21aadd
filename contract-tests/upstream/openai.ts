// What OpenAI's two dialects have in common: the key, the errors, the headers and the list of models.
import { z } from 'zod';
import { bearer, type Dialect, deepestIssue, newId, Refusal } from './dialect.ts';

type Shared = Pick<
  Dialect,
  'apiKey' | 'headers' | 'newRequestId' | 'errorBody' | 'modelList' | 'model' | 'noKey'
>;

export const openAi: Shared = {
  apiKey: bearer,
  headers: (requestId) => ({
    'x-request-id': requestId,
    'openai-version': '2020-10-01',
    'openai-processing-ms': '1',
  }),
  newRequestId: () => newId('req_', 32, '0123456789abcdef'),
  errorBody: openAiErrorBody,
  modelList: (ids) => ({ object: 'list', data: ids.map(model) }),
  model,
  noKey: () =>
    new Refusal(
      401,
      "You didn't provide an API key. You need to provide your API key in an Authorization header.",
      { code: null },
    ),
};

const errorKinds: Record<number, { type: string; code: string | null }> = {
  401: { type: 'invalid_request_error', code: 'invalid_api_key' },
  403: { type: 'invalid_request_error', code: 'unsupported_country_region_territory' },
  404: { type: 'invalid_request_error', code: 'model_not_found' },
  429: { type: 'requests', code: 'rate_limit_exceeded' },
};

export function openAiErrorBody(refusal: Refusal) {
  const other = { type: refusal.status < 500 ? 'invalid_request_error' : 'server_error', code: null };
  const kind = errorKinds[refusal.status] ?? other;
  const code = refusal.code === undefined ? kind.code : refusal.code;
  return { error: { message: refusal.message, type: refusal.type ?? kind.type, param: refusal.param, code } };
}

/** Checks a body and throws a `Refusal` that names the parameter as this vendor does. */
export function checkedBody<Schema extends z.ZodType>(schema: Schema, body: unknown): z.infer<Schema> {
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  if (issue?.code === 'unrecognized_keys') {
    const unknown = [...issue.path, ...issue.keys.slice(0, 1)];
    throw new Refusal(400, `Unknown parameter: '${dotted(unknown)}'.`, {
      code: 'unknown_parameter',
      param: dotted(unknown),
    });
  }
  const { path, message } = deepestIssue(parsed.error.issues);
  const param = dotted(path);
  throw new Refusal(400, `Invalid value for '${param}': ${message}`, { code: 'invalid_value', param });
}

export const functionName = z.string().regex(/^[a-zA-Z0-9_-]{1,64}$/);
/** A JSON Schema for the arguments; this vendor takes objects only. */
export const functionParameters = z.looseObject({ type: z.literal('object') }).optional();

/** How an answer is to be held to a schema: strictly only to one that leaves nothing open. */
export const answerFormat = z
  .looseObject({ strict: z.boolean().nullish(), schema: z.unknown().optional() })
  .superRefine(({ strict, schema }, context) => {
    const open = strict ? openObject(schema) : null;
    if (open !== null)
      context.addIssue({ code: 'custom', message: `Invalid schema for response_format: ${open}` });
  });

function openObject(schema: unknown): string | null {
  if (typeof schema !== 'object' || schema === null) return null;
  const { properties, required, additionalProperties } = schema as Record<string, unknown>;
  if (typeof properties === 'object' && properties !== null) {
    const names = Object.keys(properties);
    if (additionalProperties !== false)
      return "'additionalProperties' is required to be supplied and to be false.";
    if (!Array.isArray(required) || names.some((name) => !required.includes(name)))
      return "'required' is required to be supplied and to be an array including every key in properties.";
  }
  return Object.values(schema).reduce<string | null>((found, inner) => found ?? openObject(inner), null);
}

/** Schema entries for fields that are known by name and not looked into. */
export function ignoredFields(names: readonly string[]): Record<string, z.ZodOptional<z.ZodUnknown>> {
  return Object.fromEntries(names.map((name) => [name, z.unknown().optional()]));
}

function model(id: string) {
  return { id, object: 'model', created: 1767225600, owned_by: 'scripted' };
}

function dotted(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, '');
}
