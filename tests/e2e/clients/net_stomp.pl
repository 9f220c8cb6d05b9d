# Drives Perl's Net::Stomp (Debian package libnet-stomp-perl) by lines of JSON; piped.py has the format.
use strict;
use warnings;
use Encode qw(decode encode);
use JSON::PP;
use MIME::Base64;
use Net::Stomp;

$| = 1;
my $json = JSON::PP->new->utf8->canonical;
my (%connections, @frames);

# Net::Stomp writes headers as they are, so they are bytes here.
sub headers {
    my ($request) = @_;
    my $headers = $request->{headers} || {};
    return map { encode('UTF-8', $_) => encode('UTF-8', $headers->{$_}) } keys %$headers;
}

sub answer {
    my ($frame) = @_;
    return { lost => JSON::PP::true } unless $frame;
    push @frames, $frame;
    my %headers = map { decode('UTF-8', $_) => decode('UTF-8', $frame->headers->{$_} // '') } keys %{ $frame->headers };
    my $body = encode_base64($frame->body // '', '');
    return { frame => { command => $frame->command, headers => \%headers, body => $body, number => $#frames } };
}

sub perform {
    my ($request) = @_;
    my $verb = $request->{do};
    if ($verb eq 'connect') {
        my $stomp = Net::Stomp->new({
            hostname => '127.0.0.1', port => $request->{port}, timeout => $request->{patience},
            reconnect_attempts => 1, initial_reconnect_attempts => 1,
        });
        $connections{ $request->{connection} } = $stomp;
        return answer($stomp->connect({ login => $request->{login}, passcode => $request->{passcode} }));
    }
    my $stomp = $connections{ $request->{connection} };
    my %headers = headers($request);
    my $destination = encode('UTF-8', $request->{destination} // '');
    if ($verb eq 'send') {
        my $body = decode_base64($request->{body});
        # bytes_message is its word for "with content-length".
        $headers{bytes_message} = 1 if $body =~ /\0/;
        $stomp->send({ destination => $destination, body => $body, %headers });
    }
    elsif ($verb eq 'subscribe' or $verb eq 'unsubscribe') {
        $stomp->$verb({ destination => $destination, %headers });
    }
    elsif ($verb eq 'ack' or $verb eq 'nack') {
        $stomp->$verb({ frame => $frames[ $request->{frame} ], %headers });
    }
    elsif ($verb eq 'begin' or $verb eq 'commit' or $verb eq 'abort') {
        my %all = (transaction => encode('UTF-8', $request->{transaction}), %headers);
        $stomp->send_frame(Net::Stomp::Frame->new({ command => uc $verb, headers => \%all }));
    }
    elsif ($verb eq 'receive') {
        return answer($stomp->receive_frame({ timeout => $request->{patience} }));
    }
    elsif ($verb eq 'disconnect') {
        $stomp->disconnect;
    }
    elsif ($verb eq 'drop') {
        $stomp->_close_socket;
    }
    return { done => JSON::PP::true };
}

while (my $line = <STDIN>) {
    my $reply = eval { perform($json->decode($line)) } || { failed => "$@" };
    print $json->encode($reply), "\n";
}
