/** Reads the tools of a Messages request: they are the client's, whatever their names, and never run here. */
import type { CreateMessageRequest, MessagesTool } from '../contract/api.ts';
import type { AnswerTerms, ToolDefinition } from '../handler.ts';
import { refusal, required } from './messages-refusal.ts';
import { vendorTool } from './messages-vendor-tools.ts';

type Asked = Pick<CreateMessageRequest, 'tools' | 'tool_choice' | 'messages'>;

/** Those that any model can be told of. Throws Problem. */
export function toolsOf({ tools, messages }: Asked): readonly ToolDefinition[] {
  const given = (tools ?? []).map((tool, index) => ({ tool, place: `/tools/${index}` }));
  const added = messages.flatMap(({ content }, at) =>
    Array.isArray(content) ? content.flatMap((block, index) => addedTool(block, at, index)) : [],
  );
  const definitions = [...given, ...added].flatMap(({ tool, place }) => definitionOf(tool, place));
  const names = new Set<string>();
  for (const { name } of definitions) {
    if (names.has(name)) throw refusal('/tools', `two tools are called ${name}`, 'uniqueItems');
    names.add(name);
  }
  return definitions;
}

/** Whether the model has to call one of them, and how many at once. */
export function choiceOf(
  { tool_choice: choice, tools: given }: Asked,
  tools: readonly ToolDefinition[],
): Pick<AnswerTerms, 'toolChoice' | 'oneToolAtMost'> {
  if (!choice) return {};
  const asked = choice.type === 'tool' ? named(choice.name, given ?? [], tools) : choices[choice.type];
  if (tools.length === 0) return {};
  return {
    ...(asked && { toolChoice: asked }),
    ...(choice.disable_parallel_tool_use && { oneToolAtMost: true }),
  };
}

const choices = { auto: 'auto', any: 'required', none: 'none' } as const;

/** Null for a tool that the vendor runs: no other model has it, and to the vendor's own the choice is passed on as it is. */
function named(
  name: string | undefined,
  given: readonly MessagesTool[],
  tools: readonly ToolDefinition[],
): { readonly tool: string } | null {
  const tool = required(name, '/tool_choice/name');
  if (tools.some((one) => one.name === tool)) return { tool };
  // A toolset is given without the names of what it holds.
  if (given.some((one) => one.name === tool || one.name === undefined)) return null;
  throw refusal('/tool_choice/name', `the request brings no tool ${JSON.stringify(tool)}`, 'enum');
}

/** A tool that joins in the middle of the conversation. */
function addedTool(block: { readonly type: string; readonly tool?: unknown }, at: number, index: number) {
  if (block.type !== 'tool_addition') return [];
  const { tool } = block;
  if (typeof tool !== 'object' || tool === null || !('definition' in tool)) return [];
  const place = `/messages/${at}/content/${index}/tool/definition`;
  return [{ tool: tool.definition as MessagesTool, place }]; // read with the care of any other
}

function definitionOf(tool: MessagesTool, place: string): readonly ToolDefinition[] {
  const { type, name, description, input_schema: inputSchema } = tool;
  if (type !== undefined && type !== null && type !== 'custom') {
    const known = vendorTool(type);
    return known ? [{ ...known, ...(name && { name }) }] : [];
  }
  return [
    {
      name: required(name, `${place}/name`),
      description: description ?? '',
      inputSchema: { ...required(inputSchema, `${place}/input_schema`) },
    },
  ];
}
