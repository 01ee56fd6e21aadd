/** The tool calls and files of a document that comes in: a session is made of none that could never go on. */
import type { ExportedMessage, MessagePart } from '../contract/api.ts';
import { Problem } from '../problem.ts';
import { isTakableFile } from './export-repair.ts';

/** What is wrong with a part. */
interface Fault {
  readonly member: string;
  readonly detail: string;
  readonly message: string;
}

/** Throws `broken_export` at the first call, result or file that every provider refuses in a history, wherever it stands. */
export function refuseUntakable(messages: readonly ExportedMessage[]): void {
  const asked = new Set<string>();
  for (const [index, message] of messages.entries()) {
    const own = new Set<string>();
    for (const [at, part] of message.parts.entries()) {
      const fault = faultOf(part, message, own, asked);
      if (fault) throw broken(fault, index, at);
      if (part.type !== 'tool_use') continue;
      own.add(part.id);
      asked.add(part.id);
    }
  }
}

function faultOf(
  part: MessagePart,
  { role }: ExportedMessage,
  own: ReadonlySet<string>,
  asked: ReadonlySet<string>,
): Fault | null {
  if (part.type === 'tool_result' && !asked.has(part.tool_use_id))
    return {
      member: 'tool_use_id',
      detail: `answers the tool call ${named(part.tool_use_id)}, which no message before it asks for`,
      message: 'no such tool call before it',
    };
  if (part.type === 'tool_result' && role !== 'tool')
    return {
      member: 'type',
      detail: `has the role ${role} and holds the result of a tool; put results in messages of the role tool of their own`,
      message: 'only messages of the role tool hold results',
    };
  if (part.type === 'file' && !isTakableFile(part))
    return {
      member: 'media_type',
      detail: `shows a file of the type ${named(part.media_type)}, which no model takes; leave out its data, sha256 and url, and models are told that it is not shown`,
      message: 'no model takes files of this type',
    };
  if (part.type !== 'tool_use') return null;
  if (role !== 'assistant')
    return {
      member: 'type',
      detail: `has the role ${role} and calls a tool, which only an answer of a model does`,
      message: 'only messages of the role assistant call tools',
    };
  if (part.id === '')
    return {
      member: 'id',
      detail: 'calls a tool by an empty id, by which no result can be known to be its own',
      message: 'must not be empty',
    };
  if (own.has(part.id))
    return {
      member: 'id',
      detail: `calls two tools by the id ${named(part.id)}; give each its own`,
      message: 'twice in this message',
    };
  return null;
}

function named(id: string): string {
  return id.length > 100 ? `${id.slice(0, 100).toWellFormed()}…` : id;
}

function broken({ member, detail, message }: Fault, index: number, at: number): Problem {
  const pointer = `/messages/${index}/parts/${at}/${member}`;
  return new Problem('broken_export', `Message ${index + 1} ${detail}.`, {
    errors: [{ in: 'body', pointer, message, code: 'broken_export' }],
  });
}
