// Makes a tool from its input schema and its work: parses the input and turns expected failures into results.
import { z } from 'zod';
import { storableText } from '../../storable.ts';
import { type PreparedCall, type Tool, type ToolContext, ToolInputError, type ToolOutput } from './tool.ts';

/** A tool whose `prepare` gets its input already checked. */
export interface ToolDefinition<Input extends z.ZodType> extends Omit<Tool, 'inputSchema' | 'prepare'> {
  readonly input: Input;
  prepare(input: z.output<Input>, context: ToolContext): Promise<PreparedCall> | PreparedCall;
}

/** Completes a definition to a tool. */
export function defineTool<Input extends z.ZodType>(definition: ToolDefinition<Input>): Tool {
  const { input: schema, prepare, ...facts } = definition;
  return {
    ...facts,
    inputSchema: inputSchemaOf(schema),
    async prepare(input, context) {
      const parsed = schema.safeParse(input);
      if (!parsed.success) throw new ToolInputError(`Wrong input.\n${z.prettifyError(parsed.error)}`);
      try {
        const call = await prepare(parsed.data, context);
        return { permission: call.permission, run: () => runSafely(call, context) };
      } catch (error) {
        throw expectedFailure(error) ?? error;
      }
    },
  };
}

/** A result that tells the model what went wrong. */
export function failure(content: string, metadata?: Record<string, unknown>): ToolOutput {
  return { content: storableText(content), is_error: true, ...(metadata && { metadata }) };
}

/** A good result. */
export function success(content: string, metadata?: Record<string, unknown>): ToolOutput {
  return { content: storableText(content), is_error: false, ...(metadata && { metadata }) };
}

async function runSafely(call: PreparedCall, context: ToolContext): Promise<ToolOutput> {
  if (context.signal.aborted) return interrupted();
  try {
    return await call.run();
  } catch (error) {
    if (context.signal.aborted) return interrupted();
    const expected = expectedFailure(error);
    if (!expected) throw error;
    return failure(expected.message);
  }
}

/** The result of a call that ended because its run was interrupted. */
export function interrupted(outputSoFar = ''): ToolOutput {
  const note = 'Interrupted before it was done.';
  return failure(outputSoFar ? `${outputSoFar}\n${note}` : note, { interrupted: true });
}

const FILE_FAILURES: Readonly<Record<string, string>> = {
  ENOENT: 'no such file or folder',
  EACCES: 'access denied by the file system',
  EPERM: 'not permitted by the file system',
  ENOTDIR: 'a part of the path is not a folder',
  EISDIR: 'it is a folder',
  ELOOP: 'symbolic links that lead nowhere, or a path that just became one',
  ENAMETOOLONG: 'the name is too long',
  ENOSPC: 'no space left on the device',
  EDQUOT: 'the disk quota is used up',
  EROFS: 'the file system is read-only',
  EXDEV: 'the folder spans two file systems',
  ENXIO: 'it is not a regular file',
  EBUSY: 'the file is in use',
  EFBIG: 'the file is too large',
};

function expectedFailure(error: unknown): ToolInputError | undefined {
  if (error instanceof ToolInputError) return error;
  if (!(error instanceof Error) || !('code' in error) || typeof error.code !== 'string') return undefined;
  const reason = FILE_FAILURES[error.code];
  return reason ? new ToolInputError(`The file system refused: ${reason}.`, { cause: error }) : undefined;
}

/** Some tools are made anew for each step, of the same schema. */
const inputSchemas = new WeakMap<z.ZodType, Record<string, unknown>>();

function inputSchemaOf(schema: z.ZodType): Record<string, unknown> {
  const known = inputSchemas.get(schema);
  if (known) return known;
  // Providers take the schema without the dialect's address; some refuse unknown keywords.
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: 'input' });
  inputSchemas.set(schema, rest);
  return rest;
}
