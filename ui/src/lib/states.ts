// The states of flows in words. The letters are Zeek's.

const TCP: Record<string, string> = {
  S0: 'no answer',
  S1: 'established, end not seen',
  S2: 'established, client closed, server did not',
  S3: 'established, server closed, client did not',
  SF: 'normal end',
  REJ: 'refused by the server',
  RSTO: 'established, then reset by the client',
  RSTR: 'reset by the server',
  RSTOS0: 'no answer, then reset by the client',
  RSTRH: 'reset by the server, client not seen',
  SH: 'no answer, closed by the client',
  SHR: 'only the server seen',
  OTH: 'beginning not seen',
};

/** Protocols without connections: their states say which side was seen. */
const OTHER: Record<string, string> = { S0: 'no answer', SF: 'answered', SHR: 'only the server seen', OTH: 'no states' };

/** A state in words; "" for one that is not known. */
export function stateWords(state: string, protocol = 'tcp'): string {
  return (protocol === 'tcp' || protocol === 'sctp' ? TCP[state] : OTHER[state]) ?? '';
}

/** "SF, normal end". */
export function stateText(state: string, protocol = 'tcp'): string {
  const words = stateWords(state, protocol);
  return words ? `${state}, ${words}` : state;
}
