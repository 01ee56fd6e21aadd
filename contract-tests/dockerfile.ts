/** Reads of a Dockerfile what a container does as its own user: the steps, the environment, the command. */

export interface ContainerSteps {
  /** The RUN steps after USER, as lines for a shell. */
  readonly steps: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  readonly command: readonly [string, ...string[]];
  readonly healthCheck: readonly [string, ...string[]];
}

interface Instruction {
  readonly name: string;
  readonly value: string;
}

/** Only the forms that our own file has: anything else is an error, so that nothing is passed over in silence. */
export function readDockerfile(text: string): ContainerSteps {
  const instructions = text
    .replaceAll(/^\s*#.*\n/gm, '')
    .replaceAll(/\\\n/g, ' ')
    .split('\n')
    .flatMap(readInstruction);
  const user = instructions.findLastIndex(({ name }) => name === 'USER');
  if (user < 0 || /^(root|0)\b/.test(instructions[user]?.value ?? ''))
    throw new Error('The container runs as root: there is no USER, or it names root.');
  const own = instructions.slice(user + 1);
  const values = (name: string) => own.filter((one) => one.name === name).map(({ value }) => value);
  return {
    steps: values('RUN'),
    environment: Object.fromEntries(values('ENV').flatMap(readPairs)),
    command: readExec(values('CMD').at(-1)),
    healthCheck: readExec(/\bCMD\s+(\[.*)/.exec(values('HEALTHCHECK').at(-1) ?? '')?.[1]),
  };
}

function readInstruction(line: string): Instruction[] {
  if (line.trim() === '') return [];
  const [, name, value] = /^([A-Z]+)\s+(.*\S)\s*$/.exec(line) ?? [];
  if (name === undefined || value === undefined) throw new Error(`This is no instruction: ${line}`);
  return [{ name, value }];
}

function readPairs(value: string): [string, string][] {
  return value.split(/\s+/).map((pair) => {
    const [, name, given] = /^(\w+)=([^"'\\$]*)$/.exec(pair) ?? [];
    if (name === undefined || given === undefined) throw new Error(`Write ENV as NAME=value: ${value}`);
    return [name, given];
  });
}

function readExec(value: string | undefined): [string, ...string[]] {
  const words: unknown = JSON.parse(value ?? 'null');
  if (!Array.isArray(words) || !words.every((word) => typeof word === 'string'))
    throw new Error(`Write a command as a list of strings: ${value}`);
  const [program, ...args] = words;
  if (program === undefined) throw new Error('The command is empty.');
  return [program, ...args];
}
